"""What can go wrong with a run, told by type. The program's own words are kept as they are."""

from __future__ import annotations

__all__ = ["GpulaneError", "ModelNotInFile", "PlanError", "ProgramMissing", "ResourcesMissing", "RunFailed"]


class GpulaneError(Exception):
    """gpulane could not do what was asked. The message is the program's own."""


class PlanError(GpulaneError, ValueError):
    """A plan or an argument is wrong; nothing was started. The message shows every mistake with its place."""


class ResourcesMissing(GpulaneError):
    """The GPUs or the memory asked for are not here; nothing was started."""


class ProgramMissing(GpulaneError, FileNotFoundError):
    """The program `gpulane` is not where it is looked for, or cannot be run."""


class ModelNotInFile(GpulaneError, ValueError):
    """A model that other processes cannot load, because it is in no file of its own."""


class RunFailed(GpulaneError):
    """Raised by `Run.check()`: the run did not succeed."""


for _public in (GpulaneError, ModelNotInFile, PlanError, ProgramMissing, ResourcesMissing, RunFailed):
    _public.__module__ = "gpulane"  # Where it is imported from, and what a traceback shows.
