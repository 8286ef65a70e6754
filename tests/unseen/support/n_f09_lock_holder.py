"""Another job that holds the dataset's lock and never ends."""
import fcntl
from common import *
f = open(os.path.join(TMP, "imdb.lock"), "w")
fcntl.flock(f, fcntl.LOCK_EX)
for_ever()
