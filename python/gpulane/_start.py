"""How `gpulane map` starts a worker or a loader: `python …/gpulane/_start.py worker FILE.py:Class`.

By its path and not with `-m`, which puts the working directory in front of everything: a `queue.py` or `gpulane.py`
there would be taken for Python's or for this package. Nothing happens when it is imported, which `multiprocessing` does
in processes it spawns.
"""

import importlib
import os
import sys
from typing import Callable

LATER = ("_cupy", "_early", "_torch")
"""Used only with a GPU; what they import of Python's own must not be looked for when others' folders are back."""


def role(name: str) -> Callable[[], None]:
    """Imports what the role needs with nobody's folders in the way, then puts them back; what remains to be done."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(here)
    given = [entry for entry in sys.path if os.path.abspath(entry) not in (here, root)]
    theirs = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    theirs.add(os.getcwd())
    sys.path[:] = [root] + [entry for entry in given if os.path.abspath(entry) not in theirs]
    from gpulane import _compiled, loader, worker

    for later in LATER:
        importlib.import_module(f"gpulane._device.{later}")
    sys.path[:] = [root] + given
    _compiled.keep()
    return loader.main if name == "loader" else worker.main


def main() -> None:
    """Starts what the first word says."""
    role(sys.argv.pop(1) if len(sys.argv) > 1 else "")()


if __name__ == "__main__":
    main()
