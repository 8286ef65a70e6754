"""Holds the lock of l04 for a while."""

import fcntl
from common import *
f = open(os.path.join(TMP, "build.lock"), "w")
fcntl.flock(f, fcntl.LOCK_EX)
publish("held", "")
time.sleep(SECONDS)
