"""Runs of gpulane from Python: started, shown, waited for, read.

The program does the work; this starts it as a process and reads the run directory. So a run looks the same from a
notebook, a script and a shell, and whatever happens to this Python, what it started ends in order.
"""

from ._errors import GpulaneError, ModelNotInFile, PlanError, ProgramMissing, ResourcesMissing, RunFailed
from ._run import Job, Run
from ._start import map, run

__all__ = [
    "GpulaneError",
    "Job",
    "ModelNotInFile",
    "PlanError",
    "ProgramMissing",
    "ResourcesMissing",
    "Run",
    "RunFailed",
    "map",
    "run",
]
