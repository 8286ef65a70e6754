"""The job's side of gpulane: plain files and environment variables, no connection that could break or block."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

__all__ = ["config", "done", "log", "out"]

LONGEST_TEXT = 1000
"""A value that is no number is told in so many characters at most: metrics are no place for data."""

_sinks: Dict[Tuple[int, str], int] = {}
"""The open metrics file, by process and path. A plain dict, whose single steps are atomic: no lock that a fork in
the wrong moment could leave locked for ever."""


def config() -> Dict[str, Any]:
    """This job's config.

    From gpulane; without one, from `--config` on the command line (JSON text or the path of a JSON file), so that
    the same script runs by hand; otherwise empty.
    """
    _needs_a_job("config")
    text = os.environ.get("GPULANE_CONFIG")
    if text:
        return _an_object(text, "GPULANE_CONFIG")
    path = os.environ.get("GPULANE_CONFIG_FILE")
    if path:
        return _an_object(_text_of(path), path)
    given = _argument("--config")
    if not given:
        return {}
    if given.lstrip().startswith("{"):
        return _an_object(given, "--config")
    return _an_object(_text_of(given), given)


def out() -> Path:
    """Where this job's output belongs. Under gpulane it appears at its final place when the job has succeeded;
    without one it is `out` in the current directory."""
    _needs_a_job("out")
    folder = Path(os.environ.get("GPULANE_OUT") or "out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log(**values: Any) -> None:
    """Notes metrics: `log(step=10, loss=0.31)`. Never fails and never waits for gpulane; `time` is added.

    Numbers of numpy, torch and kin are taken as numbers (a tensor on a GPU is fetched). NaN and the infinities,
    which JSON does not have, become "NaN", "Infinity" and "-Infinity".
    """
    path = os.environ.get("GPULANE_METRICS")
    if not path:
        return
    noted = {name: _plain(value) for name, value in values.items()}
    noted["time"] = _now()
    line = (json.dumps(noted, allow_nan=False) + "\n").encode()
    try:
        # One call on a descriptor that appends: lines of several threads and processes do not mix.
        os.write(_sink(path), line)
    except OSError:
        pass  # A full disk is no reason to end a training; gpulane says so by itself.


def done() -> None:
    """Says that the work is finished and all output written. If the process then does not exit within the stage's
    `grace`, gpulane ends it, and it has succeeded."""
    path = os.environ.get("GPULANE_DONE")
    if not path:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # Closed or missing: nothing to write out.
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))
    except OSError as error:
        raise OSError(error.errno, f"gpulane cannot be told that the work is done: {error.strerror}", path) from None
    _ring()


def _needs_a_job(name: str) -> None:
    """A standby imports a file before there is a job; what it would be told then belongs to none."""
    if os.environ.get("GPULANE_ATTEMPT") == "0":
        raise RuntimeError(
            f"gpulane.{name}() was called while the file is imported, before there is a job; call it inside the function "
            'that `entry` names, or write standbys = "off"'
        )


def _ring() -> None:
    """Wakes gpulane. Without a bell it looks by itself, a little later."""
    run = os.environ.get("GPULANE_RUN")
    if not run:
        return
    try:
        bell = os.open(os.path.join(run, "control", "bell"), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(bell, b"!")
    except OSError:
        pass  # Rung already, or nobody listens any more.
    finally:
        os.close(bell)


def _sink(path: str) -> int:
    """The metrics file of this very process: a forked child opens its own."""
    mine = (os.getpid(), path)
    known = _sinks.get(mine)
    if known is not None:
        return known
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    kept = _sinks.setdefault(mine, opened)
    if kept != opened:
        os.close(opened)  # Another thread was first.
    return kept


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return _short(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    number = _item(value)
    return _finite(number) if isinstance(number, float) else _short(str(value)) if number is None else number


def _finite(value: float) -> Any:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _item(value: Any) -> Any:
    """What a scalar of numpy, torch and kin stands for; nothing if it is none."""
    try:
        number = value.item()
    except Exception:  # No such method, more than one element, an error of the GPU: whatever it is, logging goes on.
        return None
    return number if isinstance(number, (bool, int, float)) else None


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _now() -> str:
    """As in gpulane's events: RFC 3339 in UTC, to the millisecond."""
    millis = time.time_ns() // 1_000_000
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000)) + f".{millis % 1000:03}Z"


def _argument(name: str) -> Optional[str]:
    words = sys.argv[1:]
    for index, word in enumerate(words):
        if word == name and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return None


def _text_of(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _an_object(text: str, source: str) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{source} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{source} must be a JSON object, not {type(value).__name__}")
    return value
