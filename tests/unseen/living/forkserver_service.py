"""Main joins two forkserver workers that serve clients from outside; one comes late and says quit to each."""
import multiprocessing as mp, os, socket


def serve(path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(path + ".part")
    s.listen(5)
    os.rename(path + ".part", path)
    while True:
        c, _ = s.accept()
        req = c.recv(100)
        c.sendall(req.upper())
        c.close()
        if req == b"quit":
            return


if __name__ == "__main__":
    ctx = mp.get_context("forkserver")
    tmp = os.environ["UNSEEN_TMP"]
    procs = [ctx.Process(target=serve, args=(os.path.join(tmp, f"s{i}"),)) for i in range(2)]
    for p in procs:
        p.start()
    for p in procs:
        p.join()
    if any(p.exitcode for p in procs):
        raise SystemExit(1)
    print("alive")
