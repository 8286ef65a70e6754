"""Outside of the job `sigwait_go`: the process it waits for."""

import os, signal, time

path = os.path.join(os.environ["UNSEEN_TMP"], "pid")
while not os.path.exists(path):
    time.sleep(0.1)
time.sleep(float(os.environ.get("UNSEEN_SECONDS", "15")))
os.kill(int(open(path).read()), signal.SIGUSR1)
while True:
    time.sleep(60)
