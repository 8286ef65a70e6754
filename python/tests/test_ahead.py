"""A standby compiles what an import is going to need, and carries nothing of it out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unittest
from typing import List
from unittest import mock

from gpulane import _ahead, _compiled
from gpulane._ahead import Ahead, imports

from .entries import PACKAGE, Standby


class Imports(unittest.TestCase):
    def test_what_stands_at_the_left_edge(self) -> None:
        for line, expected in [
            (b"import a", ["a"]),
            (b"import a.b as c, d  # of e", ["a.b", "d"]),
            (b"import a; import b", []),
            (b"from a import b", ["a", "a.b"]),
            (b"from a.b import c as d, e # f", ["a.b", "a.b.c", "a.b.e"]),
            (b"from a import *", ["a"]),
            (b"from a import (\n    b,  # of c, d\n    e as f,\n)\nimport g", ["a", "a.b", "a.e", "g"]),
            (b"from a import(b)", ["a", "a.b"]),
            (b"from . import a", ["top.middle", "top.middle.a"]),
            (b"from .a import b", ["top.middle.a", "top.middle.a.b"]),
            (b"from .. import a", ["top", "top.a"]),
            (b"from ..a.b import c", ["top.a.b", "top.a.b.c"]),
            (b"from .... import a", []),
            (b"if a:\n    import b", []),
            (b"importa\nfrom_ = 1\nimports = 2", []),
            (b"x = 1\r\nimport a\r\n", ["a"]),
            (b"import \xff", []),
            (b"from the example above import it, as it is", []),
            (b"import the example, too", ["too"]),
            (b"import " + b"a" * 100_000 + b"!", []),
            (b"", []),
        ]:
            with self.subTest(line):
                self.assertEqual(imports(line, "top.middle"), expected)


class Library(Standby):
    """One of a few files, none of them compiled."""

    def setUp(self) -> None:
        super().setUp()
        self.packages = self.folder / "site-packages"
        self.library = self.packages / "library"
        for name, text in {
            "__init__": "import library.near\ntry:\n    from library import torn\nexcept ImportError:\n    pass\n",
            "near": '"""Prose:\nimport example\n"""\nfrom . import near\nSAID = "near"\n',
            # From here on it is imported by nobody.
            "torn": "raise ImportError('not here')\nfrom .far import away\nimport library.broken, nowhere\n",
            "far/__init__": "from ..far.away import SAID\nfrom . import warned\nopen('carried-out', 'w')\n",
            "far/away": "SAID = 'away'\n",
            "far/warned": "SAID = '\\d'\n",
            "broken": "x = = 1\n",
            "unused": "",
        }.items():
            file = self.library / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.write("import library.unused\n", "example.py")
        self.write("import library\ndef main():\n    print(library.near.SAID)\n")
        self.place = {
            "PYTHONPATH": str(self.packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPYCACHEPREFIX": "",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }

    def pages(self) -> List[str]:
        return sorted(one.name for one in self.folder.glob("cache/gpulane/compiled/*/*") if "lib" in one.name)


IMPORTED = ["library", "library.near", "library.torn"]


class Followed(Library):
    def run_standby(self, **more: str) -> None:
        self.start("train.py:main", **{**self.place, **more})
        self.assertIn("ready", self.hear())
        self.hand_over(self.job())
        self.assertEqual(self.end(), (0, ["near\n", ""]))
        self.assertFalse((self.folder / "carried-out").exists())

    def test_a_standby_compiles_what_an_import_may_need(self) -> None:
        self.run_standby()
        self.assertEqual(self.pages(), sorted([*IMPORTED, "library.far", "library.far.away"]))
        self.assertEqual(list(self.folder.glob("cache/gpulane/compiled/*/example")), [], "the user's own are Python's")

    def test_a_job_does_not(self) -> None:
        done = self.cold("train.py:main", **self.place)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "near\n", ""))
        self.assertEqual(self.pages(), IMPORTED)

    def test_what_python_keeps_itself_is_left_to_it(self) -> None:
        """It may leave torn files on a full disk, and would read them in the same breath."""
        self.run_standby(PYTHONDONTWRITEBYTECODE="")
        found = {one.name.partition(".")[0] for one in self.library.glob("**/__pycache__/*.pyc")}
        self.assertEqual((found, self.pages()), ({"__init__", "near", "torn"}, []))

    def test_a_full_disk_costs_nothing_but_time(self) -> None:
        self.write(
            "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (20, -1))\nimport library\n", "limited.py"
        )
        self.write("import limited\nfrom limited import library\ndef main():\n    print(1 + 1)\n")
        self.start("train.py:main", **self.place)
        self.assertIn("ready", self.hear())
        self.assertEqual(self.pages(), [])

    def test_a_job_that_comes_ends_it(self) -> None:
        """It is there from the beginning; the library is large enough to be seen at."""
        for number in range(300):
            (self.library / "far" / f"part{number}.py").write_text("x = [" + "0, " * 2000 + "]\n")
        lines = [f"from . import part{number}\n" for number in range(300)]
        (self.library / "far" / "__init__.py").write_text("".join(lines))
        self.start("train.py:main", **self.place)
        self.hand_over(self.job())
        self.assertIn("ready", self.hear())
        self.assertEqual(self.end(), (0, ["near\n", ""]))
        self.assertLess(len(self.pages()), 100)

    def test_what_is_warned_of_is_left_to_its_import(self) -> None:
        (self.library / "near.py").write_text("SAID = 'near' if '\\d' else ''\n")
        self.start("train.py:main", **self.place, PYTHONWARNINGS="error")
        self.assertIn("failed", self.hear())
        self.assertEqual(self.cold("train.py:main", **self.place, PYTHONWARNINGS="error").returncode, 1)


class Order(Library):
    """With somebody else in the place of what keeps it."""

    def setUp(self) -> None:
        super().setUp()
        environment = {name: value for name, value in self.place.items() if name == "XDG_CACHE_HOME"}
        for patch in (
            mock.patch("sys.path", [str(self.packages), *sys.path]),
            mock.patch("sys.dont_write_bytecode", True),
            mock.patch.dict("os.environ", environment),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.kept = _compiled.Kept()
        self.compiled: List[str] = []
        patch = mock.patch.object(_ahead, "_compile", lambda name, path, kept: self.compiled.append(name))
        patch.start()
        self.addCleanup(patch.stop)

    def begin(self, ahead: Ahead, name: str) -> List[str]:
        self.compiled.clear()
        ahead.begin(name, self.kept)
        return list(self.compiled)

    def test_what_comes_later_comes_later_and_nothing_twice(self) -> None:
        ahead = Ahead({"library": "library.far"}, lambda: False)
        compiled = self.begin(ahead, "library")
        self.assertEqual(set(compiled[:2]), {"library", "library.near"})
        self.assertEqual(set(compiled[2:]), {"library.far", "library.far.away", "library.far.warned"})
        self.assertEqual(set(self.begin(ahead, "library.torn")), {"library.torn", "library.broken"})

    def test_everybody_has_an_order_of_his_own(self) -> None:
        lines = [f"from . import part{number}\n" for number in range(50)]
        (self.library / "near.py").write_text("".join(lines))
        for number in range(50):
            (self.library / f"part{number}.py").write_text("")
        one, other = (self.begin(Ahead({}, lambda: False), "library") for _ in range(2))
        self.assertEqual((len(one), set(one)), (52, set(other)))
        self.assertNotEqual(one, other)

    def test_a_job_is_more_urgent(self) -> None:
        asked: List[None] = []
        self.begin(Ahead({}, lambda: asked.append(None) is not None), "library.torn")  # type: ignore[func-returns-value]
        self.assertEqual(len(self.compiled), 7)
        for most in range(len(asked)):
            left = [False] * most
            compiled = self.begin(Ahead({}, lambda left=left: not left or left.pop()), "library.torn")  # type: ignore[misc]
            # It is asked while searching, then once for each file, then at the end.
            self.assertEqual(len(compiled), max(0, most - (len(asked) - 8)), most)

    def test_nothing_is_done_beside_other_threads_or_where_nothing_is_kept(self) -> None:
        go_on = threading.Event()
        thread = threading.Thread(target=go_on.wait)
        thread.start()
        self.assertEqual(self.begin(Ahead({}, lambda: False), "library"), [])
        go_on.set()
        thread.join()
        self.assertEqual(len(self.begin(Ahead({}, lambda: False), "library")), 2)
        self.kept.can_write = False
        self.assertEqual(self.begin(Ahead({}, lambda: False), "library"), [])

    def test_whatever_goes_wrong_is_no_reason_to_fail(self) -> None:
        with mock.patch.object(_ahead, "imports", side_effect=RuntimeError):
            self.assertEqual(self.begin(Ahead({}, lambda: False), "library"), [])
        with mock.patch("importlib.machinery.PathFinder.find_spec", side_effect=RuntimeError):
            self.assertEqual(self.begin(Ahead({}, lambda: False), "library"), [])
        (self.library / "near.py").unlink()
        os.mkfifo(self.library / "near.py")
        self.assertEqual(self.begin(Ahead({}, lambda: False), "library"), ["library"])


class AskedFor(Library):
    def test_only_where_something_is_missing(self) -> None:
        code = (
            "import sys\n"
            f"sys.path.insert(0, {str(PACKAGE)!r})\n"
            "from gpulane import _compiled\n"
            "class Ahead:\n"
            "    def begin(self, name, kept): print(name)\n"
            "_compiled.keep(Ahead())\n"
            "import library\n"
        )
        for expected in (IMPORTED, []):
            done = subprocess.run(
                [sys.executable, "-c", code],
                cwd=self.folder,
                env={**self.environment(), **self.place},
                capture_output=True,
                text=True,
                timeout=60,
            )
            asked = [name for name in done.stdout.split() if name.startswith("library")]
            self.assertEqual((asked, done.stderr), (expected, ""))


if __name__ == "__main__":
    unittest.main()
