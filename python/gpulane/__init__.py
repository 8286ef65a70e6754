"""What a job says to gpulane and gets from it, and gpulane itself for scripts and notebooks.

    import gpulane

    config = gpulane.config(lr=1e-3)       # this job's config, over these defaults
    out = gpulane.out()                    # where its output belongs
    gpulane.log(step=10, loss=0.31)        # metrics; each is a sign of life
    gpulane.done()                         # the work is finished: an exit that hangs is ended and counts as success

    class Tagger(gpulane.Model):           # a model for `gpulane map`; see `gpulane.Model`
        def setup(self): ...
        def predict_batch(self, batch): ...

    with gpulane.stage("deconvolution"):   # gives GPU memory back at the end, and says how much
        ...

All of it works, or says why not, where no gpulane, no torch, no CuPy and no GPU is. Importing this imports nothing
else: each name brings what it needs when it is first used.
"""

TYPE_CHECKING = False  # As typing has it; type checkers know the name, and `typing` itself is not light.
if TYPE_CHECKING:
    from typing import List

    from ._cleanup import cleanup
    from ._concurrent import concurrent
    from ._isolate import StageDied
    from ._job import config, done, log, out, rank, seed
    from ._magic import load_ipython_extension
    from ._model import Model
    from ._runs import (
        GpulaneError,
        ModelNotInFile,
        PlanError,
        ProgramMissing,
        ResourcesMissing,
        Run,
        RunFailed,
        map,
        run,
    )
    from ._stage import stage

__all__ = [
    "GpulaneError",
    "Model",
    "ModelNotInFile",
    "PlanError",
    "ProgramMissing",
    "ResourcesMissing",
    "Run",
    "RunFailed",
    "StageDied",
    "cleanup",
    "concurrent",
    "config",
    "done",
    "load_ipython_extension",
    "log",
    "map",
    "out",
    "rank",
    "run",
    "seed",
    "stage",
]

__version__ = "0.1.0"
"""The program's own; a test compares it with Cargo.toml."""

_ROOMS = {
    "GpulaneError": "._runs",
    "Model": "._model",
    "ModelNotInFile": "._runs",
    "PlanError": "._runs",
    "ProgramMissing": "._runs",
    "ResourcesMissing": "._runs",
    "Run": "._runs",
    "RunFailed": "._runs",
    "StageDied": "._isolate",
    "cleanup": "._cleanup",
    "concurrent": "._concurrent",
    "config": "._job",
    "done": "._job",
    "load_ipython_extension": "._magic",
    "log": "._job",
    "map": "._runs",
    "out": "._job",
    "rank": "._job",
    "run": "._runs",
    "seed": "._job",
    "stage": "._stage",
}
"""Which module has which name."""


if not TYPE_CHECKING:  # Type checkers would take it for a promise that every name is here.

    def __getattr__(name):
        room = _ROOMS.get(name)
        if room is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(room, __name__), name)
        globals()[name] = value  # From now on it is found without asking here.
        return value


def __dir__() -> "List[str]":
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
