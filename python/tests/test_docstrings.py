"""Every promised name says what it does with an example, and the example holds."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import inspect
import io
import math
import os
import random
import sys
import tempfile
import unittest
from typing import Any, Dict, List, Tuple
from unittest import mock

import gpulane
from gpulane import _cleanup

from .real_gpulane import BUILT

NEEDS: Dict[str, Tuple[str, ...]] = {"load_ipython_extension": ("IPython",)}
"""Packages without which an example cannot be tried."""

RUN_THE_PROGRAM = ("map", "run")


class Docstrings(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        outside = ("GPULANE_", "SLURM_", "RANK", "WORLD_SIZE")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
        if BUILT is not None:
            clean["GPULANE_BINARY"] = str(BUILT)
        for patch in (mock.patch.dict(os.environ, clean, clear=True), mock.patch.object(sys, "argv", ["train.py"])):
            patch.start()
            self.addCleanup(patch.stop)

    def test_every_promised_name_has_an_example_that_holds(self) -> None:
        for name in gpulane.__all__:
            value = getattr(gpulane, name)
            if name == "Run" or (inspect.isclass(value) and issubclass(value, Exception)):
                continue  # Errors are raised, and runs returned; `run` and `map` show how.
            with self.subTest(name=name):
                self.try_example(name)

    def try_example(self, name: str) -> None:
        value = getattr(gpulane, name)
        test = doctest.DocTestFinder(recurse=False).find(value, name, module=False, globs={name: value, **names()})
        examples = [each for found in test for each in found.examples]
        self.assertTrue(examples, f"gpulane.{name} has no example in its docstring")
        missing = [package for package in NEEDS.get(name, ()) if importlib.util.find_spec(package) is None]
        if missing:
            self.skipTest(f"the example of gpulane.{name} needs {missing[0]}")
        if name in RUN_THE_PROGRAM and BUILT is None:
            self.skipTest(f"the example of gpulane.{name} needs a gpulane that is built")
        _cleanup._calls.clear()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said: List[str] = []
        with contextlib.redirect_stderr(io.StringIO()):
            for found in test:
                runner.run(found, out=said.append, clear_globs=False)
        forget_ipython()
        self.assertEqual(runner.summarize(verbose=False).failed, 0, "".join(said))

    def test_every_public_function_of_a_name_has_a_docstring(self) -> None:
        for name in gpulane.__all__:
            value = getattr(gpulane, name)
            self.assertTrue(inspect.getdoc(value), name)
            for member, inner in vars(value).items() if inspect.isclass(value) else ():
                if inspect.isfunction(inner) and not member.startswith("_"):
                    with self.subTest(name=f"{name}.{member}"):
                        self.assertTrue(inspect.getdoc(inner))


def names() -> Dict[str, Any]:
    """What an example may use without importing it."""
    return {"gpulane": gpulane, "os": os, "random": random, "math": math}


def forget_ipython() -> None:
    """An example may have started one, which would then be what `get_ipython()` finds."""
    module = sys.modules.get("IPython.core.interactiveshell")
    if module is not None:
        module.InteractiveShell.clear_instance()


if __name__ == "__main__":
    unittest.main()
