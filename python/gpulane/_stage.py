"""A piece of work on the GPU with a name and an end: at the end memory is given back, and a line says how much."""

from __future__ import annotations

import functools
import inspect
import time
from types import TracebackType
from typing import Any, Callable, List, Optional, Type, TypeVar, Union, cast, overload

from ._cleanup import Freed, free, guard_against_loops, say

__all__ = ["Stage", "stage"]

SHORT_STAGE_S = 1.0
"""What a longer stage pays for its end is little beside its work, however often it is run."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Stage:
    """A named piece of work: `with` it, or decorate a function with it. Made by `gpulane.stage`."""

    def __init__(self, name: Optional[str], isolate: bool, quiet: bool) -> None:
        self.name = name
        """What it is called when it is spoken of; a function's own name if None."""
        self.isolate = isolate
        self.quiet = quiet
        self.freed: Optional[Freed] = None
        """What came back at its last end."""
        self.seconds: Optional[float] = None
        """How long it took, without the cleaning."""
        self._begun: List[float] = []

    def __enter__(self) -> Stage:
        if self.isolate:
            raise ValueError(
                "a `with` block cannot run in a process of its own; write it as a function in a file and decorate "
                "that: @gpulane.stage(isolate=True)"
            )
        self._begun.append(time.monotonic())
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        del trace  # It would keep the stage's variables.
        self.end(time.monotonic() - self._begun.pop(), None if kind is None else kind.__name__)

    def end(self, seconds: float, failed: Optional[str] = None) -> Freed:
        """Cleans, and says how it went; `failed` is what the stage failed with."""
        self.seconds = seconds
        if seconds < SHORT_STAGE_S:
            guard_against_loops("stage")
        self.freed = free()
        if not self.quiet:
            outcome = "stage complete" if failed is None else f"stage failed: {failed}"
            say(f"{self.name or 'stage'}: {seconds:.1f} s, {self.freed}, {outcome}")
        return self.freed

    def __call__(self, function: Function) -> Function:
        """The function as a stage."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{_name_of(function)} is a generator: its end is not the end of its work. "
                "Put `with gpulane.stage(...)` around the loop that uses it"
            )
        if self.isolate:
            return self._isolated(function)
        name = self.name or _name_of(function)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_later(*args: Any, **kwargs: Any) -> Any:
                with Stage(name, False, self.quiet):
                    return await function(*args, **kwargs)

            return cast(Function, run_later)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with Stage(name, False, self.quiet):
                return function(*args, **kwargs)

        return cast(Function, run)

    def _isolated(self, function: Function) -> Function:
        from ._isolate import call_in_a_process, request_for
        from ._isolated import MARK

        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{_name_of(function)} is async, and its process would have no loop; use a plain function")
        name = self.name or _name_of(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            request = request_for(name, function, args, kwargs)  # Refused here, there is no process to speak of.
            begun = time.monotonic()
            outcome = "stage failed"
            try:
                result = call_in_a_process(name, request)
                outcome = "stage complete"
                return result
            except BaseException as error:
                outcome = f"stage failed: {type(error).__name__}"
                raise
            finally:
                if not self.quiet:
                    took = time.monotonic() - begun
                    say(f"{name}: {took:.1f} s in a process of its own, gone with all its GPU memory, {outcome}")

        setattr(run, MARK, True)
        return cast(Function, run)


def _name_of(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


@overload
def stage(name: Function) -> Function: ...
@overload
def stage(name: Optional[str] = None, *, isolate: bool = False, quiet: bool = False) -> Stage: ...
def stage(
    name: Union[str, Callable[..., Any], None] = None, *, isolate: bool = False, quiet: bool = False
) -> Union[Stage, Callable[..., Any]]:
    """A piece of work on the GPU: at its end memory is given back as by `gpulane.cleanup()`, once, and one line says
    how long it took and what came back. After an error too, which goes on as usual.

    With `with`, or as a decorator. `isolate=True` (decorator only) calls the function in a fresh process, with which
    even the CUDA context goes. Its module must be importable; arguments and results must be picklable, and results not
    on the GPU; exceptions come back with the traceback of the other process as their cause, and a process that ended
    without an answer is a `gpulane.StageDied`.

    >>> with gpulane.stage("deconvolution", quiet=True) as work:
    ...     image = sum(range(10))
    >>> work.freed.freed
    0

    >>> @gpulane.stage
    ... def denoise(image):
    ...     return image / 2
    >>> denoise(image)
    22.5

    >>> gpulane.stage("a fresh process", isolate=True, quiet=True)(math.sqrt)(4)
    2.0
    """
    if callable(name):
        return Stage(None, isolate, quiet)(name)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"a stage's name is text, not {name!r}: gpulane.stage('denoising')")
    return Stage(name, isolate, quiet)
