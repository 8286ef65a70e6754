"""What is compiled of libraries is kept where Python does not keep it, and nothing else changes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import List
from unittest import mock

from gpulane import _compiled
from gpulane._compiled import HASH, Page

from .entries import PACKAGE, RUNNER


class Kept(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.library = self.folder / "site-packages" / "library"
        self.library.mkdir(parents=True)
        (self.library / "__init__.py").write_text("SAID = 'compiled'\n")
        (self.folder / "train.py").write_text(
            "import library, own, library.part\ndef main(): print(library.SAID, own.SAID, library.part.SAID)\n"
        )
        (self.folder / "own.py").write_text("SAID = 'own'\n")
        (self.library / "part.py").write_text("SAID = 'part'\n")

    def run_job(self, **more: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPULANE_", "PYTHON"))}
        environment.update(
            PYTHONPATH=f"{self.folder / 'site-packages'}",
            PYTHONDONTWRITEBYTECODE="1",
            XDG_CACHE_HOME=str(self.folder / "cache"),
            GPULANE_CONFIG="{}",
            GPULANE_OUT=str(self.folder),
        )
        done = subprocess.run(
            [sys.executable, str(RUNNER), "train.py:main"],
            cwd=self.folder,
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def pages(self) -> List[str]:
        """Of the library: Python's own may or may not be among them."""
        found = self.folder.glob("cache/gpulane/compiled/*/*")
        return sorted(one.name for one in found if "library" in one.name or one.name.startswith("own"))

    def page(self, name: str = "library") -> Path:
        return next(iter(self.folder.glob(f"cache/gpulane/compiled/*/{name}")))

    def forge(self, text: str, path: str = "") -> None:
        """Puts something else in its place: whether it is seen tells whether the page was read."""
        source = self.library / "__init__.py"
        code = compile(text, path or str(source), "exec")
        Page(str(self.page()), "", source.read_bytes()).write(code)

    def test_libraries_are_compiled_once_and_own_files_always(self) -> None:
        self.assertEqual(self.run_job(), "compiled own part")
        self.assertEqual(self.pages(), ["library", "library.part"])
        self.forge("SAID = 'kept'\n")
        self.assertEqual(self.run_job(), "kept own part")
        self.assertEqual(list(self.folder.glob("**/__pycache__")), [])

    def test_only_the_user_can_write_there(self) -> None:
        self.run_job()
        for one in [self.page(), *list(self.page().parents)[:3]]:
            self.assertEqual(one.stat().st_mode & 0o077, 0, one)
        self.forge("SAID = 'kept'\n")
        for folder in list(self.page().parents)[:3]:
            with self.subTest(folder.name):
                folder.chmod(0o777)
                self.assertEqual(self.run_job(), "compiled own part")
                folder.chmod(0o700)
        self.page().parent.chmod(0o1777)
        self.assertEqual(self.run_job(), "compiled own part")
        self.page().parent.chmod(0o700)
        self.assertEqual(self.run_job(), "kept own part")
        elsewhere = self.folder / "elsewhere"
        compiled = self.page().parents[1]
        compiled.rename(elsewhere)
        compiled.symlink_to(elsewhere)
        self.assertEqual(self.run_job(), "compiled own part")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_root_runs_nothing_of_a_users(self) -> None:
        self.run_job()
        self.forge("SAID = 'kept'\n")
        for folder in list(self.page().parents)[:5]:
            with self.subTest(folder.name):
                os.chown(folder, 12345, 12345)
                self.assertEqual(self.run_job(), "compiled own part")
                os.chown(folder, 0, 0)
        self.assertEqual(self.run_job(), "kept own part")

    def test_nobodys_home_is_made(self) -> None:
        self.run_job(XDG_CACHE_HOME="", HOME=str(self.folder / "no" / "home"))
        self.assertFalse((self.folder / "no").exists())
        (self.folder / "open").mkdir()
        (self.folder / "open").chmod(0o777)
        self.run_job(XDG_CACHE_HOME="", HOME=str(self.folder / "open"))
        self.assertEqual(list((self.folder / "open").iterdir()), [])

    def test_a_file_that_has_changed_is_compiled_anew_even_if_its_time_has_not(self) -> None:
        self.run_job()
        source = self.library / "__init__.py"
        before = source.stat()
        source.write_text("SAID = 'modified'\n")
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(source.stat().st_size, before.st_size)
        self.assertEqual(self.run_job(), "modified own part")

    def test_what_is_torn_or_foreign_is_compiled_anew(self) -> None:
        self.run_job()
        whole = self.page().read_bytes()
        turned = bytearray(whole)
        turned[-3] ^= 1
        for content in (b"", whole[:HASH], whole[:-1], bytes(turned), whole + b"x"):
            with self.subTest(len(content)):
                self.page().write_bytes(content)
                self.assertEqual(self.run_job(), "compiled own part")
                self.assertEqual(self.page().read_bytes(), whole)
        self.forge("SAID = 'of another file'\n", "/somewhere/else.py")
        self.assertEqual(self.run_job(), "compiled own part")

    def test_a_syntax_error_is_told_as_ever(self) -> None:
        (self.library / "broken.py").write_text("x = = 1\n")
        for broken in ("import library.broken\n", "x = = 1\n"):
            (self.folder / "own.py").write_text(broken)
            (self.folder / "train.py").write_text(
                "import traceback\n"
                "def main():\n"
                "    try: import own\n"
                "    except SyntaxError: print(traceback.format_exc())\n"
            )
            kept, usual = self.run_job(), self.run_job(PYTHONPYCACHEPREFIX=str(self.folder / "prefix"))
            self.assertIn("SyntaxError", kept)
            self.assertEqual(kept, usual)

    def test_what_is_compiled_otherwise_is_kept_elsewhere(self) -> None:
        (self.library / "__init__.py").write_text("SAID = 'checked' if __debug__ else 'unchecked'\n")
        for _ in range(2):
            self.assertEqual(self.run_job(), "checked own part")
            self.assertEqual(self.run_job(PYTHONOPTIMIZE="1"), "unchecked own part")

    def test_what_was_read_is_what_is_compiled(self) -> None:
        """Though the file may be another one by then, such as in the middle of an upgrade."""
        source = self.library / "__init__.py"
        (self.folder / "train.py").write_text(
            "import importlib.machinery as machinery\n"
            "read = machinery.SourceFileLoader.get_data\n"
            "def get_data(self, path):\n"
            "    data = read(self, path)\n"
            f"    if path == {str(source)!r}: open(path, 'w').write('SAID = \"upgraded\"\\n')\n"
            "    return data\n"
            "machinery.SourceFileLoader.get_data = get_data\n"
            "import library\n"
            "def main(): print(library.SAID)\n"
        )
        self.assertEqual(self.run_job(), "compiled")

    def test_where_python_keeps_it_or_was_told_where_there_is_no_folder(self) -> None:
        self.run_job(PYTHONPYCACHEPREFIX=str(self.folder / "prefix"))
        self.assertFalse((self.folder / "cache").exists())
        self.run_job(PYTHONDONTWRITEBYTECODE="")
        self.assertEqual(self.pages(), [])
        self.assertTrue(list(self.library.glob("__pycache__/*.pyc")))
        self.run_job()
        self.assertEqual(self.pages(), [], "Python's own files are there and are read")
        os.utime(self.library / "part.py", (1, 1))
        self.run_job()
        self.assertEqual(self.pages(), ["library.part"], "that one is out of date")

    def test_where_python_could_not_write_it_is_not_pythons(self) -> None:
        source = str(self.library / "__init__.py")
        with mock.patch("sys.dont_write_bytecode", False):
            self.assertTrue(_compiled._is_kept_by_python(source))
            with mock.patch("os.access", return_value=False):
                self.assertFalse(_compiled._is_kept_by_python(source))

    def test_others_who_write_the_same_are_no_reason_to_stop(self) -> None:
        page, code = Page(str(self.folder / "page"), "", b"source"), compile("1", "", "exec")
        for error, goes_on in ((FileNotFoundError(), True), (OSError(), False)):
            with mock.patch("os.replace", side_effect=error):
                self.assertEqual(page.write(code), goes_on)

    def test_it_is_done_once_and_not_over_others(self) -> None:
        code = (
            "from importlib.machinery import SourceFileLoader as L\n"
            "from gpulane import _compiled, _start\n"
            "_start.role('worker')\n"
            "ours = vars(L)['get_code']\n"
            "_compiled.keep()\n"
            "print(vars(L)['get_code'] is ours)\n"
        )
        self.assertNotIn("get_code", vars(SourceFileLoader))
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        environment.pop("PYTHONPYCACHEPREFIX", None)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "True\n", done.stderr)

    def test_without_a_place_for_it_all_goes_as_ever(self) -> None:
        self.assertEqual(self.run_job(XDG_CACHE_HOME="", HOME=""), "compiled own part")
        (self.folder / "a file").write_text("")
        self.assertEqual(self.run_job(XDG_CACHE_HOME=str(self.folder / "a file")), "compiled own part")
        (self.folder / "home").mkdir()
        self.assertEqual(self.run_job(XDG_CACHE_HOME="", HOME=str(self.folder / "home")), "compiled own part")
        self.assertTrue((self.folder / "home" / ".cache" / "gpulane" / "compiled").is_dir())

    def test_a_full_disk_costs_nothing_but_time(self) -> None:
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, usual[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, usual)
        self.assertEqual(self.run_job(), "compiled own part")
        self.assertEqual(self.pages(), [])

    def test_loaders_that_compile_otherwise_are_left_alone(self) -> None:
        (self.library / "__init__.py").write_text("SAID = 'compiled'\n")
        (self.folder / "train.py").write_text(
            "import importlib.machinery as m, importlib.util as u, sys\n"
            "class Other(m.SourceFileLoader):\n"
            "    def source_to_code(self, data, path, **_):\n"
            "        return compile(data.replace(b'compiled', b'otherwise'), path, 'exec')\n"
            f"path = {str(self.library / '__init__.py')!r}\n"
            "spec = u.spec_from_file_location('library', path, loader=Other('library', path))\n"
            "other = u.module_from_spec(spec)\n"
            "spec.loader.exec_module(other)\n"
            "import library\n"
            "def main(): print(other.SAID, library.SAID)\n"
        )
        for _ in range(2):
            self.assertEqual(self.run_job(), "otherwise compiled")

    def test_a_loader_with_a_path_is_left_alone(self) -> None:
        (self.folder / "train.py").write_text(
            "import pathlib, types\n"
            "from importlib.machinery import SourceFileLoader\n"
            f"path = pathlib.Path({str(self.library / '__init__.py')!r})\n"
            "module = types.ModuleType('other')\n"
            "SourceFileLoader('other', path).exec_module(module)\n"
            "def main(): print(module.SAID)\n"
        )
        self.assertEqual(self.run_job(), "compiled")

    def test_what_nobody_uses_any_more_is_removed(self) -> None:
        self.run_job()
        ours = self.page().parent
        old, young = ours.parent / "old", ours.parent / "young"
        for folder in (old, young):
            folder.mkdir()
            (folder / "library").write_text("")
        os.utime(old, (1, 1))
        self.run_job()
        self.assertTrue(old.exists(), "it was looked at today")
        os.utime(ours, (1, 1))
        self.run_job()
        self.assertEqual((old.exists(), young.exists()), (False, True))
        self.assertGreater(ours.stat().st_mtime, time.time() - 3600, "it is in use")


if __name__ == "__main__":
    unittest.main()
