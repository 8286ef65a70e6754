"""Thirteen models, a thread each, and all of them compute their FID with a library that was not made for threads.

The freeze this project began from. The same work as one process per model (`../fid_one.py`) ends well.
"""
# verdict: end
# stuck: made for threads
# at: fidlike.py:stuck here

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import fidlike

print("computing FID of 13 models", flush=True)
threads = [threading.Thread(target=fidlike.compute_fid, args=(f"model-{number}",)) for number in range(13)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
