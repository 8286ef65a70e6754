"""`%%gpu_stage NAME`: a notebook's cell as a stage. Brought by `%load_ext gpulane`."""

from __future__ import annotations

import time
from typing import Any, List

from ._stage import Stage

__all__ = ["load_ipython_extension"]


class StageFailed(Exception):
    """The cell has failed; its own error was shown already."""

    def _render_traceback_(self) -> List[str]:
        """As IPython asks for it. Nothing of our own frames."""
        return [f"gpu_stage {self}"]


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext gpulane`: adds the cell magic `%%gpu_stage NAME`, which runs the cell as usual, then gives
    GPU memory back and says how much (see `gpulane.stage`). After an error too: it is shown first, then what
    its frames held is given back, which `%debug` could have looked at.

    >>> from IPython.core.interactiveshell import InteractiveShell
    >>> shell = InteractiveShell.instance()
    >>> gpulane.load_ipython_extension(shell)            # %load_ext gpulane
    >>> shell.run_cell_magic("gpu_stage", "deconvolution", "image = 6 * 7")   # doctest: +ELLIPSIS
    deconvolution: ... s, ..., stage complete
    >>> shell.user_ns["image"]
    42
    """

    def gpu_stage(line: str, cell: str) -> None:
        """%%gpu_stage NAME: run the cell, then give GPU memory back and say how much."""
        name = line.strip() or "stage"
        begun = time.monotonic()
        result = ipython.run_cell(cell)
        error = result.error_before_exec or result.error_in_exec
        failed = None if error is None else type(error).__name__
        told = f"{name}: {failed}: {error}"
        del result, error  # They keep the frames that are about to be emptied.
        Stage(name, isolate=False, quiet=False).end(time.monotonic() - begun, failed)
        if failed is not None:
            raise StageFailed(told)

    ipython.register_magic_function(gpu_stage, magic_kind="cell", magic_name="gpu_stage")
