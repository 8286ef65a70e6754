"""A job that went well ends quickly, and nothing is lost by that."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import unittest
from typing import List, Optional, Tuple

from gpulane import _ending

from .entries import PACKAGE, Standby


class Ending(Standby):
    """A job that went well ends quickly, but nothing that it has done is lost by that."""

    def three_ways(self, text: str, **more: str) -> List[List[str]]:
        """What it prints and writes, in order of the alphabet: as the job ends, cold and warm, and as Python ends by
        itself."""
        more = {"PYTHONUNBUFFERED": "", "PYTHONVERBOSE": "1", **more}
        said = []
        for way in ("cold", "warm", "alone"):
            for left in [*self.folder.glob("*.txt"), *self.folder.glob("*.db*")]:
                left.unlink()
            self.write(text)
            if way == "warm":
                code, (printed, verbose) = self.warm("train.py:main", **more)
            else:
                done = self.cold("train.py:main", alone=way == "alone", **more)
                code, printed, verbose = done.returncode, done.stdout, done.stderr
            self.assertEqual(code, 0, verbose)
            files = [f"{file.name}: {file.read_text()}" for file in sorted(self.folder.glob("*.txt"))]
            files += sorted(file.name for file in self.folder.glob("*.db*"))
            taken = ["taken apart"] if "\n# clear" in verbose else []
            said.append(sorted(printed.splitlines()) + files + taken)
        return said

    def warm(self, target: str, **more: str) -> Tuple[Optional[int], List[str]]:
        self.start(target, **more)
        self.assertIn("ready", self.hear())
        self.hand_over(self.job())
        self.assertIn("begun", self.hear())
        return self.end()

    def assert_quick(self, text: str, expected: List[str]) -> None:
        self.assertEqual(self.three_ways(text), [expected, expected, [*expected, "taken apart"]])

    def test_threads_exit_handlers_and_buffers(self) -> None:
        self.assert_quick(
            "import atexit, ctypes, threading, time\n"
            "atexit.register(print, 'at exit')\n"
            "def late():\n"
            "    time.sleep(0.3)\n"
            "    print('a thread')\n"
            "def main():\n"
            "    ctypes.CDLL(None).printf(b'by C\\n')\n"
            "    threading.Thread(target=late).start()\n"
            "    print('main is over')\n",
            ["a thread", "at exit", "by C", "main is over"],
        )

    def test_files_are_written_wherever_they_are_kept(self) -> None:
        self.write("LOG = open('module.txt', 'w')\n", "helper.py")
        names = ("global", "class", "closure", "cycle", "builtin", "in main", "module", "tee")
        self.assert_quick(
            "import builtins, functools, helper, io, sys\n"
            "GLOBAL = open('global.txt', 'w')\n"
            "class Kept: file = open('class.txt', 'w')\n"
            "@functools.lru_cache(None)\n"
            "def opened(): return open('closure.txt', 'w')\n"
            "class Cycle:\n"
            "    def __init__(self): self.file, self.hooks = open('cycle.txt', 'w'), [self.write]\n"
            "    def write(self, text): self.file.write(text)\n"
            "cycle = Cycle()\n"
            "builtins.FILE = io.TextIOWrapper(open('builtin.txt', 'wb'))\n"
            "class Tee:\n"
            "    def __init__(self): self.log = open('tee.txt', 'w')\n"
            "    def write(self, text): self.log.write(text); sys.__stdout__.write(text)\n"
            "    def flush(self): GLOBAL.flush()\n"
            "def main():\n"
            "    here = open('in main.txt', 'w')\n"
            "    for file in (GLOBAL, Kept.file, opened(), cycle, FILE, helper.LOG, here): file.write('all')\n"
            "    sys.stdout = Tee()\n"
            "    print('all')\n",
            ["all"] + sorted(f"{name}.txt: all" + ("\n" if name == "tee" else "") for name in names),
        )

    def test_what_was_open_after_the_import_may_be_gone_since(self) -> None:
        self.assert_quick(
            "class State:\n"
            "    def __del__(self): print('last words')\n"
            "state, file = State(), open('file.txt', 'w')\n"
            "closed = open('closed.txt', 'w')\n"
            "def main():\n"
            "    global state, file\n"
            "    file.write('all')\n"
            "    state = file = None\n"
            "    print(open('file.txt').read())\n"
            "    closed.close()\n",
            ["all", "last words", "closed.txt: ", "file.txt: all"],
        )

    def test_a_thread_of_the_import_may_open_files_at_any_time(self) -> None:
        self.assert_quick(
            "import threading, time\n"
            "kept = []\n"
            "def later():\n"
            "    time.sleep(0.2)\n"
            "    kept.append(open('file.txt', 'w'))\n"
            "    kept[0].write('all')\n"
            "threading.Thread(target=later).start()\n"
            "def main(): print('main')\n",
            ["main", "file.txt: all"],
        )

    def test_a_job_that_freezes_objects_itself(self) -> None:
        self.assert_quick(
            "import gc, sys\n"
            "def main():\n"
            "    sys.log = open('file.txt', 'w')\n"
            "    gc.freeze()\n"
            "    sys.log.write('all')\n",
            ["file.txt: all"],
        )

    def test_types_may_answer_as_they_like(self) -> None:
        self.assert_quick(
            "class Meta(type):\n"
            "    def __getattr__(self, name):\n"
            "        if importing: raise RuntimeError(name)\n"
            "        raise AttributeError(name)\n"
            "importing = False\n"
            "class Odd(metaclass=Meta): pass\n"
            "odd, importing = Odd(), True\n"
            "def main():\n"
            "    global importing\n"
            "    importing = False\n"
            "    print('all')\n",
            ["all"],
        )

    def test_a_thread_of_c_that_waits_for_input_keeps_nobody(self) -> None:
        """It holds what is needed to write out all that C has."""
        self.write(
            "import _thread, ctypes, os, time\n"
            "libc = ctypes.CDLL(None)\n"
            "libc.fdopen.restype = ctypes.c_void_p\n"
            "ends = os.pipe()\n"
            "file = ctypes.c_void_p(libc.fdopen(ends[0], b'r'))\n"
            "def main():\n"
            "    _thread.start_new_thread(lambda: libc.fgetc(file), ())\n"
            "    time.sleep(0.3)\n"
            "    print('all')\n"
        )
        done = self.cold("train.py:main")
        self.assertEqual((done.returncode, done.stdout), (0, "all\n"), done.stderr)

    def test_code_that_is_not_pythons_is_known_by_its_file(self) -> None:
        own, shared = "/usr/lib/python3.11/", ["/env/lib"]
        for path, trusted in [
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", True),
            ("/lib64/ld-linux-x86-64.so.2", True),
            ("/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", True),
            ("/usr/local/lib/libpython3.11.so.1.0", True),
            ("/usr/local/nvidia/lib64/libcuda.so.1", True),
            ("/opt/driver/libcuda.so.570.1", True),
            ("/env/lib/libopenblas.so.0", True),
            ("/env/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so", True),
            ("/env/lib/python3.11/site-packages/numpy.libs/libgfortran-1.so.5", True),
            ("/env/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9", True),
            ("/usr/lib/python3/dist-packages/yaml/_yaml.cpython-311.so", True),
            ("/env/lib/python3.11/site-packages/81d2__mypyc.cpython-311-x86_64-linux-gnu.so", True),
            ("[vdso]", True),
            ("/env/lib/python3.11/site-packages/cv2/cv2.abi3.so", False),
            ("/usr/lib/python3/dist-packages/h5py/h5.cpython-311.so", False),
            ("/env/lib/python3.11/site-packages/_cffi_backend.cpython-311.so", False),
            ("/home/me/.cache/torch_extensions/mine/mine.so", False),
            ("/home/me/libmine.so", False),
            ("/usr/local/lib/libmine.so", False),
        ]:
            with self.subTest(path):
                self.assertEqual(_ending._is_trusted(path, own, shared), trusted)

    def test_a_library_that_is_loaded_in_passing(self) -> None:
        """Its code is found although it is no module."""
        import _ctypes

        shutil.copy(_ctypes.__file__, self.folder / "libmine.so")
        self.assertEqual(
            self.three_ways("import ctypes\nmine = ctypes.CDLL('./libmine.so')\ndef main(): print('all')\n"),
            [["all", "taken apart"]] * 3,
        )

    def test_sockets_have_no_say(self) -> None:
        self.assert_quick(
            "import socket\nkept = socket.socketpair()\nkept[0].close()\ndef main(): print('all')\n", ["all"]
        )

    def test_a_tracker_that_has_started_nothing_has_no_say(self) -> None:
        place = self.folder / "joblib" / "externals" / "loky" / "backend"
        place.mkdir(parents=True)
        for package in [place, *list(place.parents)[:3]]:
            (package / "__init__.py").touch()
        (place / "resource_tracker.py").write_text(
            "class ResourceTracker:\n    _pid = None\n    def __del__(self): pass\ntracker = ResourceTracker()\n"
        )
        text = "from joblib.externals.loky.backend import resource_tracker as its\ndef main(): {}print('all')\n"
        self.assert_quick(text.format(""), ["all"])
        self.assertEqual(self.three_ways(text.format("its.tracker._pid = 7; ")), [["all", "taken apart"]] * 3)

    def test_compressed_files_get_their_end(self) -> None:
        self.write("import gzip\nZIPPED = gzip.open('here.gz', 'wt')\ndef main(): ZIPPED.write('all of it')\n")
        self.assertEqual(self.cold("train.py:main").returncode, 0)
        self.assertEqual(gzip.decompress((self.folder / "here.gz").read_bytes()), b"all of it")

    def test_python_ends_by_itself_where_something_has_a_say_in_it(self) -> None:
        last_words = (
            "state = None\n"
            "class State:\n"
            "    def __del__(self): open(PATH, 'w').write('written at last')\n"
            "PATH = 'last.txt'\n"
            "def main():\n"
            "    global state\n"
            "    state = State()\n"
        )
        suspended = (
            "import os\ndef steps():\n    try: yield\n    finally: os.write(1, b'finally\\n')\n"
            "at = steps()\ndef main(): next(at)\n"
        )
        daemon = (
            "import threading, time\ndef main(): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        )
        database = (
            "import sqlite3\n"
            "kept = sqlite3.connect('rows.db')\n"
            "def main(): kept.execute('pragma journal_mode=wal'); kept.execute('create table a(b)'); kept.commit()\n"
        )
        hidden = (
            "class State:\n"
            "    __slots__ = ()\n"
            "    def __del__(self): print('last words')\n"
            "kept = {'state': State()}\n"
            "def main(): pass\n"
        )
        own_file = (
            "import io, os\n"
            "class Raw(io.RawIOBase):\n"
            "    def writable(self): return True\n"
            "    def write(self, data): return os.write(1, data)\n"
            "file = io.BufferedWriter(Raw())\n"
            "def main(): file.write(b'through the buffer\\n')\n"
        )
        made_by_hand = (
            "import io, os\n"
            "class Raw:\n"
            "    closed, write = False, lambda self, data: os.write(1, data)\n"
            "    def readable(self): return False\n"
            "    def writable(self): return True\n"
            "    def seekable(self): return False\n"
            "    def flush(self): pass\n"
            "    def close(self): self.closed = os.write(1, b'the end\\n')\n"
            "file = io.TextIOWrapper(Raw())\n"
            "def main(): file.write('text\\n')\n"
        )
        (self.folder / "site-packages").mkdir()
        self.write(
            "import contextlib, os\n"
            "@contextlib.contextmanager\n"
            "def opened():\n"
            "    try: yield\n"
            "    finally: os.write(1, b'finally\\n')\n",
            "site-packages/unheard_of.py",
        )
        generator_of_a_library = "import unheard_of\nkept = unheard_of.opened()\ndef main(): kept.__enter__()\n"
        metaclass = (
            "import os\n"
            "class Meta(type):\n"
            "    def __del__(self, write=os.write): write(1, b'a class goes\\n')\n"
            "class State(metaclass=Meta): pass\n"
            "def main(): pass\n"
        )
        file_with_last_words = (
            "import io, os\n"
            "class Raw(io.RawIOBase):\n"
            "    def __del__(self): os.write(1, b'last words\\n')\n"
            "file = Raw()\n"
            "def main(): pass\n"
        )
        since_the_import = last_words.replace("state = None\n", "").replace("def main", "state = State()\ndef main")
        for text, more in [
            (last_words, {}),
            (since_the_import, {}),
            (since_the_import.replace("class State:\n", "class State:\n    __slots__ = ()\n"), {}),
            (own_file, {}),
            (made_by_hand, {}),
            (generator_of_a_library, {"PYTHONPATH": str(self.folder / "site-packages")}),
            (metaclass, {}),
            (file_with_last_words, {}),
            (suspended, {}),
            (daemon, {}),
            (hidden, {}),
            (database, {}),
            ("def main(): pass\n", {"CUDA_INJECTION64_PATH": "libprofiler.so"}),
        ]:
            with self.subTest(text):
                cold, warm, slow = self.three_ways("import atexit\natexit.register(print, 'once')\n" + text, **more)
                self.assertEqual((cold, warm), (slow, slow))
                self.assertEqual(cold.count("once"), 1)
                self.assertIn("taken apart", cold)

    def test_a_file_that_a_daemon_thread_holds_is_written(self) -> None:
        """Python by itself forgets it."""
        self.write(
            "import threading\n"
            "written = threading.Event()\n"
            "def run():\n"
            "    file = open('file.txt', 'w')\n"
            "    file.write('all')\n"
            "    written.set()\n"
            "    threading.Event().wait()\n"
            "def main():\n"
            "    threading.Thread(target=run, daemon=True).start()\n"
            "    written.wait()\n"
        )
        done = self.cold("train.py:main")
        self.assertEqual((done.returncode, (self.folder / "file.txt").read_text()), (0, "all"), done.stderr)

    def test_a_full_disk_is_not_a_success(self) -> None:
        self.write("import sys\ndef main():\n    sys.stdout = open('/dev/full', 'w')\n    print('lost')\n")
        self.assertEqual(self.cold("train.py:main").returncode, 120)

    def test_garbage_is_looked_for_as_ever_once_the_job_runs(self) -> None:
        usual = subprocess.run(
            [sys.executable, "-c", "import gc; print(gc.get_threshold())"], capture_output=True, text=True
        )
        self.write(
            "import gc\nwhile_importing = gc.get_threshold()\ndef main(): print(gc.get_threshold(), while_importing)\n"
        )
        now, _, before = self.cold("train.py:main").stdout.strip().rpartition(" (")
        self.assertEqual(now, usual.stdout.strip())
        self.assertNotEqual("(" + before, now)
        self.write("import gc\ngc.set_threshold(7, 7, 7)\ndef main(): print(gc.get_threshold()[0])\n")
        self.assertEqual(self.cold("train.py:main").stdout, "7\n")

    def test_a_python_without_ctypes_runs_jobs_too(self) -> None:
        self.write("raise ImportError('no _ctypes')\n", "ctypes.py")
        self.write("def main(): print('ran')\n")
        os.renames(self.folder / "ctypes.py", self.folder / "poor" / "ctypes.py")
        done = self.cold("train.py:main", PYTHONPATH=f"{self.folder / 'poor'}:{PACKAGE}")
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
