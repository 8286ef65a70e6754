"""Runs in a real Jupyter kernel: cards that grow in place, interrupts, killed kernels, models from cells."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import textwrap
import time
import unittest
from pathlib import Path
from typing import Any, Callable, List
from unittest import mock

from .real_gpulane import PATIENCE_S, ROOT, WithGpulane, processes, skip, until

MISSING = [name for name in ("ipykernel", "jupyter_client", "nbclient") if importlib.util.find_spec(name) is None]
WHY = (
    skip("notebooks", f"{', '.join(MISSING)} not installed, see python/tests/requirements-jupyter.txt")
    if MISSING
    else ""
)

FIRST = "import gpulane\nfrom gpulane import _runs"


class Said:
    """What a cell gave back."""

    def __init__(self) -> None:
        self.html: List[str] = []
        """Each state of its card, in order."""
        self.displays: List[str] = []
        """Outputs that are not replacements of earlier ones."""
        self.result = ""
        self.result_html = ""
        self.error = ""
        self.text = ""


class Kernel:
    """A kernel in this directory. Cells are run one after the other; messages are read here."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        with mock.patch.dict(os.environ, PYTHONPATH=str(ROOT / "python"), IPYTHONDIR=str(Path.cwd() / "ipython")):
            manager, client = start_new_kernel(kernel_name="python3")
        self.manager: Any = manager
        self.client: Any = client
        self.pid: int = manager.provisioner.pid

    def run(self, cell: str) -> Said:
        """Runs a cell to its end."""
        return self.finish(self.begin(cell))

    def begin(self, cell: str) -> str:
        request: str = self.client.execute(textwrap.dedent(cell))
        return request

    def finish(self, request: str, on_card: Callable[[], None] = lambda: None) -> Said:
        """Waits for the end of a cell; `on_card` is called when its card is there."""
        said = Said()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return said
            self.take(said, kind, content)
            if kind == "display_data":
                on_card()
        raise AssertionError(f"{PATIENCE_S:.0f} s were not enough for the cell: {said.html[-1:]}")

    def take(self, said: Said, kind: str, content: Any) -> None:
        if kind in ("display_data", "update_display_data"):
            said.html.append(content["data"].get("text/html", ""))
            if kind == "display_data":
                said.displays.append(content["data"].get("text/plain", ""))
        elif kind == "execute_result":
            said.result = content["data"].get("text/plain", "")
            said.result_html = content["data"].get("text/html", "")
        elif kind == "error":
            said.error = f"{content['ename']}: {content['evalue']}"
        elif kind == "stream":
            said.text += content["text"]

    def close(self) -> None:
        self.client.stop_channels()
        with contextlib.suppress(Exception):
            self.manager.shutdown_kernel(now=True)


@unittest.skipIf(bool(MISSING), WHY)
class Notebooks(WithGpulane):
    def setUp(self) -> None:
        super().setUp()
        self.kernel = Kernel()
        self.addCleanup(self.kernel.close)
        first = self.kernel.run(FIRST)
        self.assertEqual(first.error, "")

    def sleepers(self) -> str:
        """Begins a cell with two jobs that end only when they are run again."""
        request = self.kernel.begin(
            """
            once = "test -e again-{n} && exit 0; : > again-{n}; echo $$ > pid-{n}; sleep 1000"
            gpulane.run(command=["sh", "-c", once], sets={"n": [0, 1]}, gpus="none", lanes=2, run_dir="slow")
            """
        )
        until(lambda: all((self.folder / f"pid-{n}").exists() for n in (0, 1)), "the jobs run")
        return request

    def test_a_run_is_one_card_that_ends_as_it_ended(self) -> None:
        said = self.kernel.run(
            """
            fails = ["sh", "-c", "sleep 0.5; test {n} != 2"]
            sweep = gpulane.run(command=fails, sets={"n": range(4)}, gpus="none", lanes=2)
            """
        )
        self.assertEqual((said.error, len(said.displays)), ("", 1))
        self.assertRegex(
            said.displays[0], r"^<gpulane run 'sh': (starting|running), \d of 4 jobs", "where HTML is not shown"
        )
        self.assertGreater(len(said.html), 2, "it grew in place")
        self.assertTrue(any("2 running" in html and "lane 1" in html for html in said.html), "lanes were shown")
        self.assertIn("3 succeeded · 1 failed of 4 jobs", said.html[-1])
        self.assertIn("run/n=2", said.html[-1])

    def test_the_result_of_a_cell_is_not_a_second_card(self) -> None:
        said = self.kernel.run('run = gpulane.run(command=["true"], gpus="none")\nrun')
        self.assertEqual((len(said.displays), said.result_html), (1, ""))
        self.assertIn("1 of 1 job succeeded", said.result)
        waited = self.kernel.run("_ = run.wait()")
        self.assertEqual(waited.html, [], "it was shown already")
        again = self.kernel.run("run")
        self.assertIn("1 succeeded of 1 job", again.result_html, "in another cell it is shown")

    def test_a_run_that_ended_before_it_was_waited_for_is_shown_once(self) -> None:
        self.kernel.run('run = gpulane.run(command=["true"], gpus="none", wait=False)\nrun._child.ended.wait()')
        said = [self.kernel.run("_ = run.wait()").html for _ in range(2)]
        self.assertEqual([len(html) for html in said], [1, 0])
        self.assertIn("succeeded", said[0][0])

    def test_quiet_shows_nothing(self) -> None:
        said = self.kernel.run('run = gpulane.run(command=["true"], gpus="none", quiet=True)')
        self.assertEqual((said.html, said.text, said.error), ([], "", ""))

    def test_a_plan_with_a_mistake_is_an_error_with_its_place(self) -> None:
        said = self.kernel.run('gpulane.run({"name": "x", "stage": [{"name": "s", "comand": ["true"]}]})')
        self.assertIn("PlanError: unknown key `comand` in a stage, did you mean `command`?", said.error)
        self.assertEqual(said.html, [])

    def test_an_interrupt_ends_all_children_and_the_run_can_be_resumed(self) -> None:
        said = self.kernel.finish(self.sleepers(), on_card=self.kernel.manager.interrupt_kernel)
        self.assertEqual(said.error, "KeyboardInterrupt: stopped; gpulane.Run('slow').resume() goes on")
        self.assertIn("interrupted", said.html[-1])
        until(lambda: not processes(self.folder / "slow"), "nothing is left")
        resumed = self.kernel.run('_runs.Run("slow").resume().state')
        self.assertEqual((resumed.error, resumed.result), ("", "'succeeded'"))

    def test_a_run_that_takes_its_time_to_stop_says_so(self) -> None:
        request = self.kernel.begin(
            """
            stubborn = "trap '' TERM INT; : > runs-now; while :; do sleep 0.1; done"
            gpulane.run(command=["sh", "-c", stubborn], gpus="none", grace="2s")
            """
        )
        until((self.folder / "runs-now").exists, "the job runs")
        said = self.kernel.finish(request, on_card=self.kernel.manager.interrupt_kernel)
        told = [html for html in said.html if "interrupt again to kill them at once" in html]
        self.assertTrue(told and all("stopping" in html for html in told), said.html)
        self.assertNotIn("interrupt again", said.html[-1])

    def test_a_killed_kernel_leaves_nothing(self) -> None:
        self.sleepers()
        os.kill(self.kernel.pid, signal.SIGKILL)
        until(lambda: not processes(self.folder / "slow"), "nothing is left")
        self.assertEqual(self.state(), "interrupted")

    def test_a_restarted_kernel_leaves_nothing(self) -> None:
        self.sleepers()
        self.kernel.manager.restart_kernel(now=True)
        until(lambda: not processes(self.folder / "slow"), "nothing is left")
        self.assertEqual(self.state(), "interrupted")

    def state(self) -> str:
        from gpulane._runs import Run

        return Run(self.folder / "slow").state

    def test_a_cell_ends_although_jobs_linger_and_leave_processes(self) -> None:
        lingers = ': > "$GPULANE_DONE"; sleep 1000 & exec sleep 1000'
        said = self.kernel.run(
            f"""
            run = gpulane.run(command=["bash", "-c", {lingers!r}], grace="1s", gpus="none")
            run.ok
            """
        )
        self.assertEqual((said.error, said.result), ("", "True"))

    def test_the_kernel_answers_while_a_run_goes_on(self) -> None:
        self.kernel.run('run = gpulane.run(command=["sleep", "1000"], gpus="none", wait=False)')
        self.assertEqual(self.kernel.run("run.state").result, "'running'")
        self.assertEqual(self.kernel.run("run.stop().state").result, "'interrupted'")

    def test_a_class_of_a_cell_is_written_out_and_its_map_shown(self) -> None:
        for number in range(40):
            self.write(f"notes/{number}.txt", "some words here")
        self.kernel.run("import math, functools\nfrom collections import Counter as Bag")
        defined = self.kernel.run(
            """
            @functools.lru_cache(None)
            def unused(): ...

            class WordCount(gpulane.Model):
                decode = "text"
                def setup(self):
                    self.floor = math.floor
                def predict_batch(self, texts):
                    return [{"words": self.floor(sum(Bag(text.split()).values()))} for text in texts]
            """
        )
        self.assertEqual(defined.error, "")
        said = self.kernel.run('counted = gpulane.map(WordCount, "notes", out="counts", format="jsonl", gpus="none")')
        self.assertEqual(said.error, "")
        self.assertIn("40 of 40 items", said.html[-1])
        self.assertEqual(self.kernel.run('sum(row["words"] for row in counted.results(as_="list"))').result, "120")
        (file,) = self.folder.glob("runs/cells/*/word_count.py")
        self.assertNotIn("unused", file.read_text(encoding="utf-8"))

    def test_a_class_that_uses_what_only_the_notebook_has_is_refused(self) -> None:
        self.kernel.run("table = {1: 2}\ndef helper(text): return table")
        self.kernel.run(
            """
            class Lookup:
                def predict_batch(self, texts):
                    return [helper(text) or table for text in texts]
            """
        )
        said = self.kernel.run('gpulane.map(Lookup, ".", out="never")')
        self.assertIn("ModelNotInFile: Lookup is defined in a cell and uses what only this notebook has", said.error)
        self.assertIn("helper, table", said.error)
        self.assertIn("%%writefile lookup.py", said.error)
        self.assertFalse((self.folder / "never").exists())

    def test_a_cell_magic_that_hides_a_definition_is_named(self) -> None:
        self.kernel.run("%%time\ndef timed(config, out): ...")
        said = self.kernel.run("gpulane.run(entry=timed)")
        self.assertIn(
            "its source is not known here; a cell magic such as %%time on top of its cell hides it", said.error
        )
        self.assertIn("Jobs are other processes and load their function from a file", said.error)

    def test_what_only_a_notebook_can_do_is_named(self) -> None:
        for body, name in (("display(texts)", "display"), ("!ls", "get_ipython"), ("%timeit 1", "get_ipython")):
            self.kernel.run(f"def shows(texts):\n    {body}\n    return [open for text in texts]")
            said = self.kernel.run('gpulane.map(shows, ".", out="never")')
            self.assertRegex(said.error, rf"uses what only this notebook has: {name}( \(also behind `!` and `%`\))?\.")
        self.assertFalse((self.folder / "never").exists())

    def test_what_was_mended_in_its_cell_is_not_what_is_resumed(self) -> None:
        define = "def main(config, out):\n    raise ValueError('{0}')"
        self.kernel.run(define.format("first"))
        begun = self.kernel.run('run = gpulane.run(entry=main, gpus="none")')
        self.assertIn("exit code 1: ValueError: first", begun.html[-1])
        self.assertIn("it goes on with main as it was: if you mend that, begin a new run", begun.html[-1])
        same = self.kernel.run("_ = run.resume(failed=True)")
        self.assertEqual((same.error, same.text), ("", ""), "nothing has changed")
        self.kernel.run(define.format("second"))
        for _ in range(2):
            said = self.kernel.run("_ = run.resume(failed=True)")
            self.assertEqual(said.error, "")
            self.assertIn(
                "main is not what it was when this run began, and the run goes on with the old one", said.text
            )
            self.assertIn("ValueError: first", said.html[-1])

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_results_are_a_table(self) -> None:
        self.kernel.run('run = gpulane.run(command=["true"], sets={"lr": [1, 2]}, gpus="none", quiet=True)')
        said = self.kernel.run('table = run.results()\ntype(table).__name__, list(table["lr"]), list(table["status"])')
        self.assertEqual(said.result, "('DataFrame', [1, 2], ['succeeded', 'succeeded'])")

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_results_of_a_map_are_parquet_and_a_table(self) -> None:
        self.write("count.py", "def count(texts):\n    return [len(text) for text in texts]\n")
        names = [self.write(f"{number}.txt", "x" * number).name for number in (3, 1, 2)]
        said = self.kernel.run(
            f"""
            table = gpulane.map("count.py:count", {names!r}, out="out", decode="text", gpus="none").results(as_="arrow")
            table.to_pydict()
            """
        )
        self.assertEqual((said.error, said.result), ("", f"{{'item': {names!r}, 'result': [3, 1, 2]}}"))


@unittest.skipIf(bool(MISSING), WHY)
class Shown(WithGpulane):
    """What documents show is what works."""

    def test_the_cells_of_the_page_on_notebooks(self) -> None:
        text = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
        cells = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(cells), 5)
        for _ in range(2):  # "Restart and run all" works as well.
            kernel = Kernel()
            self.addCleanup(kernel.close)
            said = []
            for cell in cells:
                said.append(kernel.run(cell))
                self.assertEqual(said[-1].error, "", cell)
            self.assertTrue(any("uses what only this notebook has: scale." in each.text for each in said))

    def test_the_example(self) -> None:
        import nbclient
        import nbformat

        notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
        self.assertEqual([cell for cell in notebook.cells if cell.get("outputs")], [], "it is kept without outputs")
        with mock.patch.dict(os.environ, PYTHONPATH=str(ROOT / "python"), IPYTHONDIR=str(self.folder / "ipython")):
            for _ in range(2):
                nbclient.NotebookClient(notebook, timeout=PATIENCE_S, kernel_name="python3").execute()
        cards = [out for cell in notebook.cells for out in cell.get("outputs", []) if out.output_type == "display_data"]
        self.assertEqual(["succeeded" in card.data["text/html"] for card in cards], [True, True])


if __name__ == "__main__":
    unittest.main()
