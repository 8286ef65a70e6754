"""sigwait() for SIGUSR1 which the scheduler (outside) sends when it's our turn."""
import os, signal
TMP = os.environ["UNSEEN_TMP"]
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
with open(TMP + "/pid.tmp", "w") as f:
    f.write(str(os.getpid()))
os.rename(TMP + "/pid.tmp", TMP + "/pid")
print("queued", flush=True)
assert signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1
print("alive")
