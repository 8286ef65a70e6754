"""Loader child reads records until EOF, but inherited the pipe's write end and never closed it."""
import os, struct, time

r, w = os.pipe()
pid = os.fork()
if pid == 0:
    n = 0
    with os.fdopen(r, "rb") as f:
        while True:
            rec = f.read(8)
            if len(rec) < 8:
                break
            n += struct.unpack("<q", rec)[0]
    os._exit(0)
os.close(r)
for i in range(200):
    os.write(w, struct.pack("<q", i))
print("sent 200 records", flush=True)
os.close(w)
time.sleep(0.3)
print("frozen soon", flush=True)
os.waitpid(pid, 0)
print("loader done")
