"""Opens a named pipe to read from it, and nobody ever opens it to write."""
# stuck: opening a FIFO | openat
# verdict: tell
# at: fifo_without_writer.py:stuck here

import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    os.mkfifo(f"{folder}/frames")
    print("reading frames", flush=True)
    open(f"{folder}/frames").read()  # stuck here
