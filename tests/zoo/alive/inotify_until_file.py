"""Waits by inotify for a file that a neighbour writes when its work is done."""

import ctypes
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import neighbour

IN_CREATE = 0x100
libc = ctypes.CDLL(None, use_errno=True)
with tempfile.TemporaryDirectory() as folder:

    def export(begun):
        begun()
        neighbour.be_busy()
        pathlib.Path(folder, "done").touch()

    inotify = libc.inotify_init()
    assert libc.inotify_add_watch(inotify, folder.encode(), IN_CREATE) >= 0
    neighbour.start(export)
    assert os.read(inotify, 4096)
print("alive")
