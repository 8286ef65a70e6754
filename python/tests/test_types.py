"""The package's types as a user's type checker sees them, through the names that are loaded late."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import List

PACKAGE = Path(__file__).resolve().parent.parent

RIGHT = """
from pathlib import Path
from typing import Any, Dict, List, Tuple

import gpulane

config: Dict[str, Any] = gpulane.config("config.json", lr=1e-3)
folder: Path = gpulane.out()
number: int = gpulane.seed(3)
place: Tuple[int, int] = gpulane.rank()
gpulane.log(step=1, loss=0.5)
gpulane.done()
freed: int = gpulane.cleanup(reset_jax=True).freed


class Tagger(gpulane.Model):
    def predict_batch(self, batch: List[bytes]) -> List[int]:
        return [len(each) for each in batch]


with gpulane.stage("deconvolution") as stage:
    pass
print(stage.seconds)


@gpulane.stage
def blur(image: int) -> str:
    return str(image)


@gpulane.stage("sharpening", isolate=True)
def sharpen(image: int) -> str:
    return str(image)


text: str = blur(1) + sharpen(2)
made: gpulane.Run = gpulane.run("sweep.toml", gpus="none")
mapped: gpulane.Run = gpulane.map("a.py:f", ["a"], out="out", args={"least": 3})
gpulane.map("a.py:f", "a", out="out", dry_run=True)
"""

WRONG = {
    "gpulane.nothing": "has no attribute",
    "gpulane.seed('x')": "incompatible type",
    "gpulane.out().nothing": "has no attribute",
    "gpulane.run('sweep.toml', dry_run=True).ok": '"None" has no attribute',
    "gpulane.map('a.py:f', 'a', out='out', args=3)": "No overload variant",
    "gpulane.stage(len, isolate=1)": "No overload variant",
    "gpulane.stage('a', nothing=1)": "No overload variant",
    "@gpulane.stage\ndef f(x: int) -> None: ...\nf('text')": "incompatible type",
}


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Types(unittest.TestCase):
    def check(self, source: str) -> List[str]:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program.py"
            program.write_text(source, encoding="utf-8")
            # `--follow-imports silent`: mistakes of the package itself are told elsewhere.
            argv = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
            argv += ["--cache-dir", str(Path(folder) / "cache"), "--python-version", "3.8", str(program)]
            environment = {"MYPYPATH": str(PACKAGE), "PATH": ""}
            done = subprocess.run(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        return [line for line in done.stdout.splitlines() if ": error:" in line]

    def test_what_is_right_passes(self) -> None:
        self.assertEqual(self.check(RIGHT), [])

    def test_what_is_wrong_is_found(self) -> None:
        # All in one program: each start of the checker costs seconds.
        lines = {}
        source = "import gpulane\n"
        for statement, what in WRONG.items():
            source += statement + "\n"
            lines[source.count("\n")] = (statement, what)
        errors = self.check(source)
        for number, (statement, what) in lines.items():
            with self.subTest(statement=statement):
                self.assertTrue(any(f":{number}: error:" in each and what in each for each in errors), errors)


class Marker(unittest.TestCase):
    def test_the_package_says_that_it_is_typed(self) -> None:
        self.assertTrue((PACKAGE / "gpulane" / "py.typed").is_file())


if __name__ == "__main__":
    unittest.main()
