"""Waits for a file that says that an export is complete, and which nobody makes."""
# verdict: tell
# stuck: polls for the file
# at: polls_for_marker.py:stuck here

import os
import tempfile
import time


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.5)  # stuck here


with tempfile.TemporaryDirectory() as export:
    print("waiting for the export", flush=True)
    wait_for(os.path.join(export, "_SUCCESS"))
