"""The other side of tests that need someone outside the job.  usage: neighbour.py MODE
Waits for the program to show up (in $UNSEEN_TMP), lets UNSEEN_SECONDS pass, does its part, ends.
Ends by itself in any case after 3*UNSEEN_SECONDS + 25 s."""
import fcntl, os, signal, socket, sqlite3, stat, sys, time

S = float(os.environ.get("UNSEEN_SECONDS", 15))
TMP = os.environ["UNSEEN_TMP"]
LIMIT = 3 * S + 25
signal.setitimer(signal.ITIMER_REAL, LIMIT)          # default action: end
mode = sys.argv[1]


def path(n):
    return os.path.join(TMP, n)


def publish(n, text):
    with open(path(n + ".tmp"), "w") as f:
        f.write(text)
    os.rename(path(n + ".tmp"), path(n))


def wait(n):
    while not os.path.exists(path(n)):
        time.sleep(0.1)
    return path(n)


def server(answer):
    srv = socket.create_server(("127.0.0.1", 0))
    publish("port", str(srv.getsockname()[1]))
    c, _ = srv.accept()
    c.recv(4096)
    if answer:
        time.sleep(S)
        c.sendall(b"WEIGHTS\n")
    else:
        signal.pause()


if mode == "silent":
    server(False)
elif mode == "late":
    server(True)
elif mode == "unix":
    srv = socket.socket(socket.AF_UNIX)
    srv.bind(path("svc.tmp"))
    srv.listen(1)
    os.rename(path("svc.tmp"), path("svc.sock"))
    c, _ = srv.accept()
    c.recv(100)
    time.sleep(S)
    c.sendall(b"WEIGHTS\n")
elif mode == "fifo":
    os.mkfifo(path("control"))
    with open(path("control"), "w") as f:
        time.sleep(S)
        f.write("start\n")
elif mode == "file":
    wait("watching")
    time.sleep(S)
    publish("READY", "1\n")
elif mode == "flock":
    f = open(path("cache.lock"), "a")
    fcntl.flock(f, fcntl.LOCK_EX)
    publish("held", "")
    wait("arrived")
    time.sleep(S)
elif mode == "sqlite":
    db = sqlite3.connect(path("metrics.db"), isolation_level=None)
    db.execute("create table m (step integer, loss real)")
    db.execute("begin exclusive")
    publish("held", "")
    wait("arrived")
    time.sleep(S)
    db.execute("commit")
elif mode == "sem":
    import ctypes, mmap
    wait("frames.ready")
    with open(path("frames.shm"), "r+b") as f:
        m = mmap.mmap(f.fileno(), 4096)
    time.sleep(S)
    libc = ctypes.CDLL(None)
    libc.sem_post(ctypes.byref((ctypes.c_char * 32).from_buffer(m)))
    os._exit(0)
elif mode == "client":
    port = int(open(wait("sport")).read())
    time.sleep(S)
    with socket.create_connection(("127.0.0.1", port)) as c:
        c.sendall(b"hi\n")
elif mode == "usr1":
    pid = int(open(wait("pid")).read())
    time.sleep(S)
    if b"nb_sigwait" in open(f"/proc/{pid}/cmdline", "rb").read():      # never signal a stranger
        os.kill(pid, signal.SIGUSR1)
elif mode == "udp":
    port = int(open(wait("uport")).read())
    time.sleep(S)
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"GO", ("127.0.0.1", port))
else:
    sys.exit("unknown mode " + mode)
