"""Make thumbnails with a process pool, watch the memory of the workers."""
import multiprocessing as mp
import os
import signal
import threading
import time

LIMIT_KB = 4_000_000


def thumbnail(size):
    if size > 9000:                          # the big scan: the OOM killer's favourite
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return size // 16


def rss_kb(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS"):
                return int(line.split()[1])
    return 0


def watch_memory():
    """A poor man's psutil: total memory of us and our workers."""
    while True:
        total = 0
        for d in os.listdir("/proc"):
            if d.isdigit():
                try:
                    with open("/proc/%s/stat" % d) as f:
                        ppid = int(f.read().rsplit(")", 1)[1].split()[1])
                    if ppid == os.getpid():
                        total += rss_kb(int(d))
                except OSError:
                    pass
        if total > LIMIT_KB:
            print("memory is getting short:", total)
        time.sleep(2)


def main():
    threading.Thread(target=watch_memory, daemon=True, name="memwatch").start()
    sizes = [800, 1200, 640, 9600, 1024, 2048, 512, 333]
    with mp.Pool(2) as pool:
        thumbs = pool.map(thumbnail, sizes, chunksize=1)
    print("made", len(thumbs), "thumbnails")


if __name__ == "__main__":
    main()
