"""communicate() with a tool which thinks for long and then writes a lot."""
import os, subprocess, sys
S = float(os.environ.get("UNSEEN_SECONDS", 15))
print("running tool", flush=True)
p = subprocess.Popen([sys.executable, "-c",
                      f"import time; time.sleep({S}); print('x' * 300000)"],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
out, err = p.communicate()
assert len(out) > 300000 and p.returncode == 0
print("alive")
