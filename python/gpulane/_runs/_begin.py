"""From arguments to a gpulane that has begun to work, or the error that says why it has not."""

from __future__ import annotations

import re
import subprocess
from typing import IO, Any, Dict, List, Mapping, Optional, Tuple, Type, Union

from ._advice import in_python
from ._binary import environment, not_startable
from ._child import Child, interrupts_later
from ._errors import GpulaneError, PlanError, ResourcesMissing

__all__ = ["STDIN", "ask", "begin", "flags", "refusal", "refuse", "stopped", "tell"]

STDIN = "/dev/stdin"
"""The file of a plan that is given as a dict."""


def flags(options: Mapping[str, Any]) -> List[str]:
    """Keyword arguments as the program's options: `max_failures=3` is `--max-failures 3`."""
    words: List[str] = []
    for key, value in options.items():
        flag = "--" + key.replace("_", "-")
        values = value if isinstance(value, (list, tuple)) else [value]
        for each in values:
            if each is True:
                words.append(flag)
            elif each is not None and each is not False:
                words.append(f"{flag}={each}")
    return words


def begin(argv: List[str], **how: Any) -> Child:
    """Starts a gpulane that works, and waits until it has begun or refused."""
    child: Optional[Child] = None
    try:
        with interrupts_later():
            child = Child(argv, **how)
        child.stirred.wait()
    except BaseException:
        if child is not None:
            child.end()
        raise
    return child


def ask(argv: List[str], stdin: Union[IO[bytes], int] = subprocess.DEVNULL) -> Tuple[int, str, str]:
    """How a gpulane that runs nothing ends, and what it says on stdout and stderr."""
    try:
        told = subprocess.run(argv, stdin=stdin, capture_output=True, env=environment())
    except OSError as error:
        raise not_startable(argv, error) from None
    return told.returncode, told.stdout.decode(errors="replace").strip(), told.stderr.decode(errors="replace").strip()


def tell(argv: List[str], stdin: IO[bytes]) -> None:
    """Prints what a dry run says."""
    code, said, noted = ask(argv, stdin)
    if code != 0:
        raise refusal(code, noted)
    print("\n".join(filter(None, [said, noted])))


def refuse(child: Child, run: bool = False) -> None:
    """Raises what the program said, if it ended before the run began; `run`: to who has the run at hand."""
    if child.heard:
        return
    child.ended.wait()
    raise refusal(child.code, child.said, run)


def refusal(code: Optional[int], said: str, run: bool = False) -> GpulaneError:
    """What the program said, in Python's words, as the error that its exit code stands for."""
    kinds: Dict[Optional[int], Type[GpulaneError]] = {2: PlanError, 5: ResourcesMissing}
    # A mistake's place: it is in no file, and in nobody's input.
    said = re.sub(rf"^( *--> ){STDIN}:", r"\1the plan, written as TOML:", said, flags=re.MULTILINE)
    return kinds.get(code, GpulaneError)(in_python(said, run) or f"gpulane ended with {code} and said nothing")


def stopped(place: str) -> str:
    """What an interrupt says when everything has ended."""
    return f"stopped; gpulane.Run({place!r}).resume() goes on"
