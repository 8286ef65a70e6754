"""Opens the FIFO of l03 after a while and writes into it."""

from common import *
until_exists("control")
time.sleep(SECONDS)
with open(os.path.join(TMP, "control"), "w") as f:
    f.write("continue\n")
