"""`%%gpu_stage`: the cell runs as usual, its errors are shown as usual, and memory is given back either way."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import types
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional
from unittest import mock

import gpulane
from gpulane import _cleanup, _stage
from gpulane._magic import StageFailed


class Shell:
    """As much of IPython as the magic uses."""

    def __init__(self) -> None:
        self.user_ns: Dict[str, Any] = {}
        self.magics: Dict[str, Callable[[str, str], None]] = {}
        self.shown: List[str] = []

    def register_magic_function(self, function: Callable[[str, str], None], magic_kind: str, magic_name: str) -> None:
        assert magic_kind == "cell"
        self.magics[magic_name] = function

    def run_cell(self, cell: str) -> types.SimpleNamespace:
        error: Optional[BaseException] = None
        try:
            exec(cell, self.user_ns)
        except BaseException as raised:
            error = raised
            self.shown.append(type(raised).__name__)
        return types.SimpleNamespace(error_before_exec=None, error_in_exec=error)


class Magic(unittest.TestCase):
    def setUp(self) -> None:
        _cleanup._calls.clear()
        self.shell = Shell()
        self.cleaned = 0
        patch = mock.patch.object(_stage, "free", self.free)
        patch.start()
        self.addCleanup(patch.stop)
        gpulane.load_ipython_extension(self.shell)

    def free(self) -> _cleanup.Freed:
        self.cleaned += 1
        return _cleanup.Freed()

    def run_stage(self, line: str, cell: str) -> str:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.shell.magics["gpu_stage"](line, cell)
        return said.getvalue()

    def test_the_cell_runs_in_the_users_namespace_and_is_cleaned_after(self) -> None:
        self.shell.user_ns["x"] = 20
        self.assertRegex(self.run_stage(" deconvolution ", "y = x + 1"), r"^deconvolution: .* stage complete\n$")
        self.assertEqual((self.shell.user_ns["y"], self.cleaned), (21, 1))

    def test_an_error_is_shown_once_cleaned_after_and_fails_the_cell(self) -> None:
        with self.assertRaisesRegex(StageFailed, "denoising: ZeroDivisionError: division by zero") as caught:
            self.run_stage("denoising", "1 / 0")
        self.assertEqual((self.shell.shown, self.cleaned), (["ZeroDivisionError"], 1))
        self.assertEqual(
            caught.exception._render_traceback_(), ["gpu_stage denoising: ZeroDivisionError: division by zero"]
        )

    def test_an_interrupt_is_an_error_too(self) -> None:
        with self.assertRaisesRegex(StageFailed, "stage: KeyboardInterrupt"):
            self.run_stage("", "raise KeyboardInterrupt")
        self.assertEqual(self.cleaned, 1)


@unittest.skipUnless(importlib.util.find_spec("IPython"), "IPython is not installed")
class InIPython(unittest.TestCase):
    """The same in the real one."""

    def setUp(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        _cleanup._calls.clear()
        # Only the instance is what get_ipython() finds.
        self.shell = InteractiveShell.instance()
        self.addCleanup(InteractiveShell.clear_instance)
        self.run_cell("%load_ext gpulane")

    def run_cell(self, cell: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.result = self.shell.run_cell(cell, store_history=True)
        return re.sub(r"\x1b\[[0-9;]*m", "", said.getvalue())

    def test_a_cell(self) -> None:
        said = self.run_cell("%%gpu_stage deconvolution\nanswer = 6 * 7\nanswer")
        self.assertIn("42", said)
        self.assertRegex(said, r"deconvolution: \d+\.\d s, .*, stage complete\n")
        self.assertEqual(self.shell.user_ns["answer"], 42)
        self.assertTrue(self.result.success)

    def test_a_cell_that_fails(self) -> None:
        source = "%%gpu_stage deconvolution\ndef work():\n    held = [1]\n    return held[1]\nwork()"
        said = self.run_cell(source)
        self.assertIn("IndexError", said)
        self.assertIn("return held[1]", said)
        self.assertIn("stage failed: IndexError", said)
        self.assertNotIn("_magic.py", said)
        self.assertFalse(self.result.success)

    def test_outputs_on_the_gpu_are_dropped(self) -> None:
        self.run_cell("class Fake:\n    is_cuda = True\nkept = Fake()")
        self.run_cell("kept")
        number = self.shell.execution_count - 1
        self.assertIn(number, self.shell.user_ns["Out"])
        self.run_cell("import gpulane; gpulane.cleanup(quiet=True); None")
        self.assertNotIn(number, self.shell.user_ns["Out"])
        self.assertNotIn(f"_{number}", self.shell.user_ns)
        self.assertTrue(self.shell.user_ns["kept"].is_cuda)

    def test_variables_of_an_error_are_dropped(self) -> None:
        import gc

        self.run_cell("class Held:\n    pass\ndef work():\n    held = Held()\n    raise ValueError(held)")
        self.run_cell("try:\n    work()\nexcept ValueError as error:\n    error.args = ()\n    raise")
        held = self.shell.user_ns["Held"]
        self.assertTrue(any(isinstance(each, held) for each in gc.get_objects()))
        self.run_cell("import gpulane; gpulane.cleanup(quiet=True); None")
        self.assertFalse(any(isinstance(each, held) for each in gc.get_objects()))


@unittest.skipUnless(
    importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"), "nbclient is not installed"
)
class InAKernel(unittest.TestCase):
    """The same in a notebook."""

    def test_cells_of_a_notebook(self) -> None:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError

        sources = [
            "%load_ext gpulane",
            "%%gpu_stage blur\nimage = 6 * 7",
            "image",
            "%%gpu_stage sharpen\n1 / 0",
            "image",
        ]
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        notebook = nbformat.v4.new_notebook(cells=cells)
        client = NotebookClient(notebook, timeout=120, kernel_name="python3")
        with mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).resolve().parent.parent)):
            with self.assertRaisesRegex(CellExecutionError, "sharpen: ZeroDivisionError"):
                client.execute()
        _, blur, image, sharpen, after = (cell.outputs for cell in notebook.cells)
        self.assertRegex(blur[0].text, r"^blur: .* stage complete\n$")
        self.assertEqual(image[0].data["text/plain"], "42")
        shown = [output.get("ename") or output.get("text") for output in sharpen]
        self.assertEqual((shown[0], shown[-1], len(shown)), ("ZeroDivisionError", "StageFailed", 3))
        self.assertRegex(shown[1], r"stage failed: ZeroDivisionError\n$")
        self.assertEqual(after, [], "a notebook that is run as a whole stops at a stage that failed")


if __name__ == "__main__":
    unittest.main()
