"""Run lock with flock(): a logger child forked earlier inherited the locked descriptor."""
import fcntl, os, tempfile, time

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()
path = os.path.join(TMP, "run.lock")
f = open(path, "w")
fcntl.flock(f, fcntl.LOCK_EX)
r, w = os.pipe()
pid = os.fork()
if pid == 0:                         # log writer: copies the pipe into a file
    os.close(w)
    with open(os.path.join(TMP, "out.log"), "wb") as out:
        while True:
            b = os.read(r, 4096)
            if not b:
                os._exit(0)
            out.write(b)
            out.flush()
os.close(r)
os.write(w, b"epoch 0\n")
f.close()                            # "released" - the child still has it
print("epoch 0 done", flush=True)
time.sleep(0.3)
print("frozen soon", flush=True)
f = open(path, "w")
fcntl.flock(f, fcntl.LOCK_EX)
print("epoch 1")
