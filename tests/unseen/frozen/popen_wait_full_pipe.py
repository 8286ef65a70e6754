"""Preprocessing tool run with stdout=PIPE and .wait() instead of communicate()."""
import os, subprocess, sys, tempfile, threading, time

TMP = os.environ.get("UNSEEN_TMP") or tempfile.mkdtemp()


def heartbeat():
    while True:
        with open("/proc/self/status") as f:
            vm = [l for l in f if l.startswith("VmRSS")]
        with open(os.path.join(TMP, "heartbeat"), "w") as f:
            f.write(f"{time.time():.1f} {vm[0]}")
        time.sleep(2)


threading.Thread(target=heartbeat, daemon=True).start()
print("tokenizing", flush=True)
p = subprocess.Popen([sys.executable, "-c",
                      "for i in range(20000): print('tok', i, 'x'*20)"], stdout=subprocess.PIPE)
print("frozen soon", flush=True)
p.wait()
lines = p.stdout.read().splitlines()
print(len(lines))
