"""A standby compiles what an import is going to need, and carries nothing of it out."""

from __future__ import annotations

import sys
import unittest
from typing import Any, ContextManager, List
from unittest import mock

from gpulane import _ahead, _compiled
from gpulane._ahead import Ahead, imports

from .entries import Standby


class Imports(unittest.TestCase):
    def test_what_stands_at_the_left_edge(self) -> None:
        for line, expected in [
            (b"import a", ["a"]),
            (b"import a.b as c, d  # of e", ["a.b", "d"]),
            (b"import a; import b", ["a", "b"]),
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
            (b"", []),
        ]:
            with self.subTest(line):
                self.assertEqual(imports(line, "top.middle"), expected)


class Followed(Standby):
    """A library of a few files, none of them compiled."""

    def setUp(self) -> None:
        super().setUp()
        self.library = self.folder / "site-packages" / "library"
        for name, text in {
            "__init__": "import library.near\ntry:\n    from library import torn\nexcept ImportError:\n    pass\n",
            "near": "from . import near\nSAID = 'near'\n",
            # From here on it is imported by nobody.
            "torn": "raise ImportError('not here')\nfrom .far import away\nimport library.broken, nowhere\n",
            "far/__init__": "from ..far.away import SAID\nopen('carried-out', 'w')\n",
            "far/away": "SAID = 'away' if '\\d' else ''\n",
            "broken": "x = = 1\n",
            "unused": "",
        }.items():
            file = self.library / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.write("import library\ndef main():\n    print(library.near.SAID)\n")
        self.place = {"PYTHONPATH": str(self.library.parent), "XDG_CACHE_HOME": str(self.folder / "cache")}

    def pages(self) -> List[str]:
        return sorted(one.name for one in self.folder.glob("cache/gpulane/compiled/*/library*"))

    def run_standby(self, **more: str) -> None:
        self.start("train.py:main", **self.place, **more)
        self.assertIn("ready", self.hear())
        self.hand_over(self.job())
        self.assertEqual(self.end(), (0, ["near\n", ""]))
        self.assertFalse((self.folder / "carried-out").exists())

    def test_a_standby_compiles_what_a_job_may_need(self) -> None:
        self.run_standby(PYTHONDONTWRITEBYTECODE="1")
        imported = ["library", "library.near", "library.torn"]
        self.assertEqual(self.pages(), sorted([*imported, "library.far", "library.far.away"]))

    def test_a_job_does_not(self) -> None:
        done = self.cold("train.py:main", **self.place, PYTHONDONTWRITEBYTECODE="1")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "near\n", ""))
        self.assertEqual(self.pages(), ["library", "library.near", "library.torn"])

    def test_where_python_keeps_it_that_is_where_it_goes(self) -> None:
        self.run_standby(PYTHONDONTWRITEBYTECODE="")
        found = {one.name.partition(".")[0] for one in self.library.glob("**/__pycache__/*.pyc")}
        self.assertEqual(found, {"__init__", "near", "torn", "away"})
        self.assertTrue(list(self.library.glob("far/__pycache__/__init__*")))
        self.assertEqual(self.pages(), [])

    def test_where_it_could_not_be_kept_nothing_is_done(self) -> None:
        (self.folder / "a file").write_text("")
        for place, expected in (("a file", False), ("cache", True)):
            with mock.patch("sys.dont_write_bytecode", True), mock.patch.dict(
                "os.environ", XDG_CACHE_HOME=str(self.folder / place)
            ):
                self.assertEqual(_compiled.Kept().lacks("library", str(self.library / "__init__.py")), expected)
                self.assertFalse(
                    _compiled.Kept().lacks("train", str(self.folder / "train.py")), "nobody's but the user's"
                )
        self.place["XDG_CACHE_HOME"] = str(self.folder / "a file")
        self.run_standby(PYTHONDONTWRITEBYTECODE="1")

    def test_what_comes_later_is_followed_too_and_nothing_twice(self) -> None:
        compiled: List[str] = []
        ahead = Ahead({"library": "library.far"}, lambda: False)
        with mock.patch.object(_ahead, "_compile", lambda name, path: compiled.append(name)), self.on_the_path():
            ahead.compile("library", lambda name, path: name == "library.near")
            self.assertEqual(sorted(compiled), ["library", "library.far", "library.far.away"])
            ahead.compile("library.torn", lambda name, path: False)
            self.assertEqual(sorted(compiled[3:]), ["library.broken", "library.torn"])

    def test_a_job_is_more_urgent(self) -> None:
        for asked in range(6):
            compiled, left = mock.Mock(), [False] * asked
            ahead = Ahead({}, lambda left=left: not left or left.pop())  # type: ignore[misc]
            with mock.patch.object(_ahead, "_compile", compiled), self.on_the_path():
                ahead.compile("library.torn", lambda name, path: False)
            self.assertLessEqual(compiled.call_count, max(0, asked - 1))

    def on_the_path(self) -> ContextManager[Any]:
        return mock.patch("sys.path", [str(self.library.parent), *sys.path])


if __name__ == "__main__":
    unittest.main()
