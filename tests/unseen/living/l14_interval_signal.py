"""Sampler driven by an interval timer: sleeps in pause() until enough ticks were counted."""
import os, signal

SECONDS = float(os.environ.get("UNSEEN_SECONDS", "15"))
ticks = []


def on_tick(signum, frame):
    with open("/proc/loadavg") as f:
        ticks.append(f.read().split()[0])


signal.signal(signal.SIGALRM, on_tick)
signal.setitimer(signal.ITIMER_REAL, SECONDS / 2, SECONDS / 2)
while len(ticks) < 2:
    signal.pause()
print("alive")
