"""Waits for a child that fills a pipe which nobody reads, while a thread prints that all is well: that thread could read it."""
# verdict: tell
# stuck: full pipe | pipe that is full
# at: heartbeat_prints.py:stuck here

import subprocess
import sys
import threading
import time


def beat():
    while True:
        print("still here", flush=True)
        time.sleep(0.3)


threading.Thread(target=beat, daemon=True).start()
compiler = subprocess.Popen([sys.executable, "-c", "print('warning\\n' * 100000)"], stdout=subprocess.PIPE)
compiler.wait()  # stuck here
