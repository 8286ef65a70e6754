"""Waits in sigwait() for the SIGUSR1 by which a scheduler outside of the job gives it its turn."""
import os, signal

tmp = os.environ["UNSEEN_TMP"]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
with open(os.path.join(tmp, "pid.part"), "w") as f:
    f.write(str(os.getpid()))
os.rename(os.path.join(tmp, "pid.part"), os.path.join(tmp, "pid"))
got = signal.sigwait({signal.SIGUSR1, signal.SIGUSR2})
if got != signal.SIGUSR1:
    raise SystemExit(1)
print("alive")
