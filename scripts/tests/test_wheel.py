"""What is wrong with a wheel is found before anybody installs it."""

import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import wheel

METADATA = "Name: gpulane\nLicense-Expression: MIT OR Apache-2.0\nRequires-Python: >=3.8\n"


class Wheel(unittest.TestCase):
    def found(self, without=(), more=(), metadata=METADATA):
        package = wheel.ROOT / "python"
        files = {str(path.relative_to(package)): "" for path in package.glob("gpulane/**/*.py")}
        files |= {
            "gpulane/py.typed": "",
            "gpulane-1.data/scripts/gpulane": "",
            "gpulane-1.dist-info/METADATA": metadata,
        }
        files |= {f"gpulane-1.dist-info/licenses/LICENSE-{name}": "" for name in ("MIT", "APACHE")}
        files |= dict.fromkeys(more, "")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gpulane.whl"
            with zipfile.ZipFile(path, "w") as made:
                for name, text in files.items():
                    if name not in without:
                        made.writestr(name, text)
            return list(wheel.contents(path))

    def test_a_whole_one_passes(self):
        self.assertEqual(self.found(), [])

    def test_what_is_missing_is_named(self):
        for name, what in (
            ("gpulane-1.data/scripts/gpulane", "the program is not in it"),
            ("gpulane/_job.py", "gpulane/_job.py is not in it"),
            ("gpulane/py.typed", "gpulane/py.typed is not in it"),
            ("gpulane-1.dist-info/licenses/LICENSE-MIT", "a licence is not in it"),
        ):
            with self.subTest(name=name):
                self.assertEqual(self.found(without=[name]), [what])

    def test_what_does_not_belong_is_named(self):
        for name in ("tests/test_job.py", "gpulane/__pycache__/_job.cpython-311.pyc"):
            with self.subTest(name=name):
                self.assertEqual(self.found(more=[name]), [f"{name} does not belong in it"])

    def test_metadata_says_what_it_must(self):
        self.assertEqual(
            self.found(metadata="Name: gpulane\nRequires-Python: >=3.8\n"),
            ["its metadata lacks `License-Expression: MIT OR Apache-2.0`"],
        )

    def test_a_python_that_cannot_make_environments_is_not_taken(self):
        self.assertTrue(wheel.works(Path(sys.executable)))
        self.assertFalse(wheel.works(Path("/bin/false")))


if __name__ == "__main__":
    unittest.main()
