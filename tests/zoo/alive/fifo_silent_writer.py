"""Reads from a named pipe whose writer, a neighbour, works for long before it says anything."""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site-packages"))
import neighbour

with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/frames"
    os.mkfifo(path)

    def render(begun):
        begun()
        with open(path, "w") as frames:
            neighbour.be_busy()
            frames.write("frame")

    neighbour.start(render)
    with open(path) as frames:
        assert frames.read() == "frame"
print("alive")
