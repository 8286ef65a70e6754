"""Outside of the job `stale_cache_lock`: the process it waits for."""

import os, subprocess, sys, time

cache = os.path.join(os.environ["UNSEEN_TMP"], "cache")
os.makedirs(cache, exist_ok=True)
# the former run: takes the lock and dies with it
subprocess.run([sys.executable, "-c", "import os,sys; open(sys.argv[1],'w').write(str(os.getpid())); os._exit(1)",
                os.path.join(cache, "model.bin.lock")])
open(os.path.join(cache, "index"), "w").close()
while True:
    time.sleep(60)
