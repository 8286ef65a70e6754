"""From arguments to a gpulane that has begun to work, or the error that says why it has not."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Type

from ._child import Child, interrupts_later
from ._errors import GpulaneError, PlanError, ResourcesMissing

__all__ = ["begin", "flags", "refusal", "refuse", "stopped"]


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
            child = Child(argv, leashed=True, **how)
        child.stirred.wait()
    except BaseException:
        if child is not None:
            child.end()
        raise
    return child


def refuse(child: Child, here: Optional[Callable[[str], str]] = None) -> None:
    """Raises what the program said, if it ended before the run began; with what `here` adds for who calls from
    Python."""
    if child.heard:
        return
    child.ended.wait()
    raise refusal(child.code, child.said + (here(child.said) if here is not None else ""))


def refusal(code: Optional[int], said: str) -> GpulaneError:
    """What the program said, as the error that its exit code stands for."""
    kinds: Dict[Optional[int], Type[GpulaneError]] = {2: PlanError, 5: ResourcesMissing}
    return kinds.get(code, GpulaneError)(said or f"gpulane ended with {code} and said nothing")


def stopped(place: str) -> str:
    """What an interrupt says when everything has ended."""
    return f"stopped; gpulane.Run({place!r}).resume() goes on"
