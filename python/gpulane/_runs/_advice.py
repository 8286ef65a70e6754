"""What the program says to a person at a shell, in the words of one who calls it from Python. Text only."""

from __future__ import annotations

import re
from typing import Match

from ._options import MAP, RESUME, RUN

__all__ = ["in_python"]

_SWITCHES = ("accept_changes", "failed", "salvage")
_NAMES = {"out", "run_dir", "name", "gpus", "lanes", "wait", "decode", "format", "failed", *RUN, *MAP, *RESUME}
_NAME = "|".join(sorted((name.replace("_", "-") for name in _NAMES), key=len, reverse=True))
_VALUE = r"\d\w*(?:[.,]\d\w*)*%?|(?:none|all|auto|off|avoid|wait|ignore|jsonl|parquet|sim:\w+)\b"
_FLAG = re.compile(rf"(?<![\w-])--({_NAME})(?![\w-])(?: ({_VALUE}))?")
_RESUME = re.compile(r"`gpulane resume (\S[^`]*?)((?: --[a-z-]+)*)`")
_LOGS = re.compile(r"`gpulane logs (\S[^`]*) ([^` ]+)`")
_THERE = re.compile(r"continue (?:it|that run) with `gpulane resume ([^`]+)`, or")
_WHOLE = (
    # The exception says that it is one; notes before it are about a run that does not go on.
    (re.compile(r"\A(?:note: .*\n)*error: "), ""),
    (re.compile(r"\n+(?:Usage: .*|For more information, try '--help'\.)"), ""),
    # Where in the command line it is: nobody has typed one.
    (re.compile(r"\n *--> command line:.*(?:\n *\d* *\|.*)*"), ""),
)
_SHELLS = (
    (re.compile(r", and quote globs so that the shell leaves them alone"), ""),
    (re.compile(r"'(--[a-z-]+) <[^>]*>'"), r"\1"),
    (re.compile(r"--gpus ([^\s:]+): "), r"gpus='\1': "),
    (re.compile(r": `gpulane (?:map|run) [^`]* ANOTHER`"), ""),
    (re.compile(r"`?--set (\w+)=([^\s`]+)`?"), r"args={'\1': \2}"),
    (re.compile(r"`?--set\b`?"), "args="),
)
_QUOTED = re.compile(r"^ *(?:\d* *[|│┆]|-->|= )|(?<!`)\bgpulane (?:logs|map|resume|run|status) ")
"""Lines that show a plan, what to write there, what a job has said, or a command as it is."""


def in_python(said: str, run: bool = False) -> str:
    """The same with calls and arguments of Python instead of commands and options. `run`: it is about a run that is at
    hand, so that `.resume()` says enough."""

    def resume(found: Match[str]) -> str:
        given = ", ".join(f"{flag.replace('-', '_')}=True" for flag in re.findall(r"--([a-z-]+)", found[2]))
        return f"`{'' if run else f'gpulane.Run({_path(found[1])!r})'}.resume({given})`"

    def logs(found: Match[str]) -> str:
        return f"`{'' if run else f'gpulane.Run({_path(found[1])!r})'}.logs({found[2]!r}, stderr=True)`"

    def line(text: str) -> str:
        if _QUOTED.search(text):
            return text
        for shells, ours in _SHELLS:
            text = shells.sub(ours, text)
        text = _THERE.sub(
            lambda found: f"`gpulane.Run({_path(found[1])!r})` shows it, its `.resume()` goes on with it; or", text
        )
        return _FLAG.sub(_argument, _LOGS.sub(logs, _RESUME.sub(resume, text)))

    for shells, ours in _WHOLE:
        said = shells.sub(ours, said)
    return "\n".join(map(line, said.split("\n")))


def _argument(found: Match[str]) -> str:
    """`--max-failures 5%` is `max_failures='5%'`."""
    name, value = found[1].replace("-", "_"), found[2]
    if name in _SWITCHES:
        return f"{name}=True"
    if name == "wait":  # `wait` is another thing here.
        name = "wait_for"
    if not value:
        return f"{name}="
    return f"{name}={value}" if value.isdigit() else f"{name}={value!r}"


def _path(text: str) -> str:
    return text.strip().strip("'\"")
