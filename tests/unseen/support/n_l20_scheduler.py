"""Signals l20 after a while."""

import signal
from common import *
until_exists("job.pid")
pid = int(open(os.path.join(TMP, "job.pid")).read())
time.sleep(SECONDS)
os.kill(pid, signal.SIGUSR1)
