"""Parent waits for an evaluation child that was put to sleep with SIGSTOP and never continued."""
import os, signal, subprocess, sys

p = subprocess.Popen([sys.executable, "-c",
                      "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); print('evaluated')"])
print("eval child", p.pid, flush=True)
print("frozen soon", flush=True)
p.wait()
print("done")
