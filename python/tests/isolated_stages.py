"""Functions for the tests of isolated stages: a fresh process must find them in a file."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import sys
import threading
import time
from typing import IO, Any, Callable, Dict, List

import gpulane

from .fake_libraries import Tensor

calls: List[int] = []
"""What one process did; another's is another."""

kept: List[IO[str]] = []


class Odd(Exception):
    """Can be pickled, but not made again by its `__init__`."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")
        self.first = first


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    return gpulane.stage(isolate=True, quiet=True)(function)


def loud(function: Callable[..., Any]) -> Callable[..., Any]:
    """Another decorator on top of ours."""

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        return [function(*args)]

    return run


@quiet
def where(*args: Any, **kwargs: Any) -> Dict[str, Any]:
    calls.append(1)
    return {"pid": os.getpid(), "args": args, "kwargs": kwargs, "calls": len(calls), "argv": sys.argv}


@loud
@quiet
def decorated(value: int) -> int:
    return value + os.getpid() * 0


class Grouped:
    """A function that stands in a class."""

    @staticmethod
    @quiet
    def double(value: Any) -> Any:
        return value * 2


@quiet
def talk() -> None:
    print("to stdout")
    print("to stderr", file=sys.stderr)


@quiet
def fail() -> None:
    raise KeyError("no such thing")


@quiet
def fail_oddly() -> None:
    raise Odd("a", "b")


class Holding(Odd):
    """Holds what cannot be pickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)
        self.held = lambda: 1


class OfTheSystem(OSError):
    """Has memory of its own, beyond that of exceptions, and wants other arguments than it passes on."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class Slotted(Exception):
    """Its text needs what is not among its attributes."""

    __slots__ = ("second",)


class Hidden(Slotted):
    """See there."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second

    def __str__(self) -> str:
        return f"{self.args[0]} {self.second}"


@quiet
def fail_as(kind: str) -> None:
    raise {"Holding": Holding, "OfTheSystem": OfTheSystem, "Hidden": Hidden}[kind]("a", "b")


@quiet
def on_the_gpu() -> Any:
    return {"result": [Tensor(True)]}


@quiet
def unpicklable() -> Any:
    return lambda: 1


@quiet
def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@quiet
def leave(code: int) -> None:
    os._exit(code)


@quiet
def with_a_child_that_stays() -> int:
    """Leaves something behind that also holds the pipes of a fork."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    return child


@quiet
def die_with_a_child_that_stays(file: str) -> None:
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    with open(file, "w", encoding="utf-8") as told:
        told.write(str(child))
    os._exit(4)


@quiet
def wait(fifo: str, stubborn: bool = False) -> None:
    """Says who it is through a pipe, and then takes its time."""
    if stubborn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(fifo, "w", encoding="utf-8") as told:
        told.write(str(os.getpid()))
    time.sleep(600)


@quiet
def keeps_files(folder: str) -> None:
    """Writes to files that it never closes: in this module, and in a thread that does not end."""
    written = threading.Event()

    def run() -> None:
        file = open(f"{folder}/thread.txt", "w")
        file.write("all")
        written.set()
        threading.Event().wait()

    kept.append(open(f"{folder}/module.txt", "w"))
    kept[0].write("all")
    threading.Thread(target=run, daemon=True).start()
    written.wait()


@quiet
def exits_slowly() -> str:
    atexit.register(time.sleep, 600)
    return "answered"
