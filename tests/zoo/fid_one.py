"""The work of `hang/fid_in_threads.py`, one model in a process of its own: the same library, and no freeze."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "site-packages"))
import fidlike

print(sys.argv[1], fidlike.compute_fid(sys.argv[1]))
