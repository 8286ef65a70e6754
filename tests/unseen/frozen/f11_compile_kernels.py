"""Compile custom kernels with an external compiler, logging that we are still there."""
import os, subprocess, sys, threading, time

TMP = os.environ["UNSEEN_TMP"]

COMPILER = r"""
import sys
for unit in range(40):
    for line in range(60):
        sys.stderr.write("kernel_%d.cu(%d): warning #177-D: variable 'smem' was declared but never referenced\n" % (unit, line))
    sys.stdout.write("compiled unit %d\n" % unit)
"""


def still_here(log):
    t0 = time.time()
    while True:
        log.write("[%s] compiling, %.0f s so far\n" % (time.strftime("%H:%M:%S"), time.time() - t0))
        log.flush()
        time.sleep(1)


def build():
    p = subprocess.Popen([sys.executable, "-c", COMPILER],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    code = p.wait()
    if code != 0:
        raise SystemExit(p.stderr.read())
    return p.stdout.read().count("compiled")


log = open(os.path.join(TMP, "build.log"), "w")
threading.Thread(target=still_here, args=(log,), daemon=True).start()
print("built", build(), "kernels")
