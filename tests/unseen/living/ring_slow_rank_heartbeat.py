"""Ring of four ranks over loopback TCP; one is late into the collective. All write heartbeats."""
import multiprocessing as mp, os, socket, tempfile, threading, time
S = float(os.environ.get("UNSEEN_SECONDS", 15))
TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
N = 4


def hb(r):
    while True:
        with open(os.path.join(TMP, f"rank{r}.hb"), "w") as f:
            f.write(str(time.time()))
        time.sleep(1)


def main(r, left, right):
    threading.Thread(target=hb, args=(r,), daemon=True).start()
    for step in range(4):
        if r == 1 and step == 2:
            time.sleep(S)
        for _ in range(N - 1):
            right.sendall(b"12345678")
            got = b""
            while len(got) < 8:
                got += left.recv(8 - len(got))


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    links = []
    for i in range(N):
        srv = socket.create_server(("127.0.0.1", 0))
        c = socket.create_connection(srv.getsockname())
        links.append((c, srv.accept()[0]))
        srv.close()
    ps = [ctx.Process(target=main, args=(r, links[r - 1][1], links[r][0])) for r in range(N)]
    for p in ps:
        p.start()
    print("ring up", flush=True)
    for p in ps:
        p.join()
    print("alive")
