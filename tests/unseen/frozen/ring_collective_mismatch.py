"""Ring all-reduce over loopback TCP between 4 ranks; the last rank has one batch less and skips a step."""
import multiprocessing as mp, os, socket, struct, tempfile, threading, time

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
N = 4


def recv_exact(s, n):
    buf = b""
    while len(buf) < n:
        c = s.recv(n - len(buf))
        if not c:
            raise EOFError
        buf += c
    return buf


def heartbeat(rank):
    while True:
        with open(os.path.join(TMP, f"rank{rank}.hb"), "w") as f:
            f.write(f"{time.time()} {open('/proc/self/stat').read().split()[13]}\n")
        time.sleep(1)


def allreduce(left, right, v):
    acc, cur = v, v
    for _ in range(N - 1):
        right.sendall(struct.pack("<d", cur))
        cur = struct.unpack("<d", recv_exact(left, 8))[0]
        acc += cur
    return acc


def rank_main(rank, socks, done):
    left, right = socks[rank]
    for r, (l, rt) in enumerate(socks):
        if r != rank:
            l.close(); rt.close()
    threading.Thread(target=heartbeat, args=(rank,), daemon=True).start()
    steps = 20 if rank < N - 1 else 19
    for step in range(steps):
        time.sleep(0.02)
        allreduce(left, right, float(rank + step))
    done.wait()                   # final barrier


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    links = []
    for i in range(N):            # link i: rank i -> rank i+1
        srv = socket.create_server(("127.0.0.1", 0))
        c = socket.create_connection(srv.getsockname())
        s, _ = srv.accept()
        srv.close()
        links.append((c, s))
    socks = [(links[(r - 1) % N][1], links[r][0]) for r in range(N)]
    done = ctx.Barrier(N)
    ps = [ctx.Process(target=rank_main, args=(r, socks, done)) for r in range(N)]
    print("world size", N, flush=True)
    print("frozen soon", flush=True)
    for p in ps:
        p.start()
    for l, r in socks:
        l.close(); r.close()
    for p in ps:
        p.join()
    print("finished")
