"""What a notebook's cell defines is written to files that nobody else can exchange, and that are what the cell says."""

from __future__ import annotations

import linecache
import os
import sys
import tempfile
import types
import unittest
import warnings
from pathlib import Path
from typing import Any, List
from unittest import mock

from gpulane._runs import _target, _trust
from gpulane._runs._errors import ModelNotInFile

from .real_gpulane import WithGpulane, skip

STRANGER = 65_102

SOURCE = "def count(texts):\n    return [len(text) for text in texts]\n"


class InACell(unittest.TestCase):
    """`count`, as a cell of a notebook has defined it."""

    def setUp(self) -> None:
        super().setUp()
        if not isinstance(self, WithGpulane):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder.name)
        self.main = types.ModuleType("__main__")
        patched = mock.patch.dict(sys.modules, {"__main__": self.main})
        patched.start()
        self.addCleanup(patched.stop)
        self.cell(SOURCE)

    def cell(self, source: str) -> Any:
        name = f"<cell {len(linecache.cache)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), vars(self.main))
        return self.main.count

    def written(self) -> Path:
        file, _, name = _target.target_of(self.main.count).rpartition(":")
        self.assertEqual(name, "count")
        return Path(file)


class Files(InACell):
    def test_an_edited_file_is_written_anew(self) -> None:
        file = self.written()
        text = file.read_text()
        self.assertIn(SOURCE, text)
        file.write_text(text.replace("len(text)", "0"))
        self.assertEqual(self.written(), file)
        self.assertEqual(file.read_text(), text)

    def test_one_that_is_right_is_left_alone(self) -> None:
        file = self.written()
        before = os.stat(file)
        self.assertEqual(os.stat(self.written()).st_ino, before.st_ino)
        self.assertEqual([path.name for path in file.parent.iterdir()], [file.name], "no draft is left")

    def test_a_link_or_a_pipe_in_its_place_is_not_followed(self) -> None:
        file = self.written()
        text = file.read_text()
        Path("elsewhere.py").write_text("mine")
        for make in (lambda: file.symlink_to(Path("elsewhere.py").resolve()), lambda: os.mkfifo(file)):
            file.unlink()
            make()
            self.assertEqual(self.written().read_text(), text)
            self.assertFalse(file.is_symlink())
        self.assertEqual(Path("elsewhere.py").read_text(), "mine")

    def test_nobody_else_may_write_there_whatever_the_umask(self) -> None:
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        file = self.written()
        for place in (file, file.parent, file.parent.parent):
            self.assertEqual(os.stat(place).st_mode & 0o022, 0, place)

    def test_a_folder_that_others_may_write_to_is_refused(self) -> None:
        Path("open").mkdir()
        os.chmod("open", 0o777)
        os.chdir("open")
        with self.assertRaisesRegex(ModelNotInFile, "can be written to by every user.*folder of your own"):
            self.written()
        os.chmod(".", 0o1777)  # As /tmp, and ours: what is in it can be exchanged by nobody else.
        self.written()

    def test_a_folder_below_another_users_is_refused(self) -> None:
        if os.geteuid() != 0:
            self.skipTest(skip("cells below another user's folder", "needs root"))
        Path("theirs").mkdir()
        os.chown("theirs", STRANGER, STRANGER)
        os.chdir("theirs")
        for mode in (0o755, 0o775, 0o1777):  # Whoever owns a folder can exchange what is in it, sticky or not.
            os.chmod(".", mode)
            with self.assertRaisesRegex(ModelNotInFile, "theirs belongs to another user.*GPULANE_TRUST_DIR"):
                self.written()
        with mock.patch.dict(os.environ, GPULANE_TRUST_DIR=f"/nowhere:{os.getcwd()}"):
            self.written()

    def test_what_may_belong_to_anybody_outside_is_refused_where_others_may_write(self) -> None:
        with mock.patch.object(_trust, "_unmapped", return_value=os.geteuid()):
            Path("open/cells").mkdir(parents=True)
            for mode, fine in ((0o755, True), (0o1777, False), (0o775, False)):
                os.chmod("open", mode)
                found = _trust.first_open_place(Path("open/cells"), os.geteuid())
                self.assertEqual(found is None, fine, (oct(mode), found))

    def test_a_folder_of_another_user_is_refused(self) -> None:
        if os.geteuid() != 0:
            self.skipTest(skip("cells of another user", "needs root"))
        file = self.written()
        os.chown(file.parent, 65534, -1)
        with self.assertRaisesRegex(ModelNotInFile, "belongs to another user"):
            self.written()


class Resumed(InACell, WithGpulane):
    """A run that goes on with what a cell has defined."""

    def told_by_resume(self, run: Any) -> List[str]:
        """What it warns of. A map that is done has nothing to lose, so its state is made up."""
        with mock.patch.object(type(run), "state", "failed"), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run.resume(failed=True)
        return [str(one.message) for one in told if issubclass(one.category, RuntimeWarning)]

    def test_an_edited_file_is_set_right_or_told(self) -> None:
        import gpulane

        self.write("notes.txt", "one\ntwo\n")
        run = gpulane.map(self.main.count, "@notes.txt", out="r", decode="value", gpus="none", quiet=True)
        file = self.written()
        text = file.read_text()
        self.assertEqual(self.told_by_resume(run), [])
        file.write_text(text + "# edited\n")
        self.assertEqual(self.told_by_resume(run), [])
        self.assertEqual(file.read_text(), text, "the notebook still has it")
        file.write_text(text + "# edited\n")
        self.cell(SOURCE.replace("len(text)", "1"))
        edited, changed = self.told_by_resume(run)
        self.assertRegex(edited, "count.py was edited since gpulane wrote it")
        self.assertRegex(changed, "count is not what it was when this run began")


if __name__ == "__main__":
    unittest.main()
