"""Rendezvous: the store waits for world_size 4, only three ranks were launched. Each logs a heartbeat."""
import multiprocessing as mp, os, socket, tempfile, threading, time

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
WORLD = 4


def hb(name):
    while True:
        with open(os.path.join(TMP, f"{name}.log"), "a") as f:
            f.write(time.strftime("%X waiting for rendezvous\n"))
        time.sleep(2)


def rank(r, addr):
    threading.Thread(target=hb, args=(f"rank{r}",), daemon=True).start()
    s = socket.create_connection(addr)
    s.sendall(b"JOIN %d\n" % r)
    assert s.recv(100) == b"GO\n"


if __name__ == "__main__":
    srv = socket.create_server(("127.0.0.1", 0))
    ctx = mp.get_context("fork")
    print("store on", srv.getsockname(), flush=True)
    ps = [ctx.Process(target=rank, args=(r, srv.getsockname())) for r in range(3)]
    for p in ps:
        p.start()
    print("frozen soon", flush=True)
    conns = []
    while len(conns) < WORLD:
        c, _ = srv.accept()
        c.recv(100)
        conns.append(c)
    for c in conns:
        c.sendall(b"GO\n")
    for p in ps:
        p.join()
