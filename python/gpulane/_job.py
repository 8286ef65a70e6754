"""The job's side of gpulane: plain files and environment variables, no connection that could break or block."""

from __future__ import annotations

import json
import math
import operator
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Set, Tuple

__all__ = ["config", "done", "log", "out", "rank", "seed"]

LONGEST_TEXT = 1000
"""A value that is no number is told in so many characters at most: metrics are no place for data."""

LARGEST_SEED = 2**32 - 1
"""What numpy takes."""

EXAMPLES = {"--config": "config.json, or --config '{\"lr\": 0.001}'", "--out": "DIR"}
"""What to write behind an option that has no value."""

_sinks: Dict[Tuple[int, str], int] = {}
"""The open metrics file, by process and path. A plain dict, whose single steps are atomic: no lock that a fork in
the wrong moment could leave locked for ever."""

_chosen: Dict[str, Any] = {}
"""What `config()` has returned so far, defaults and all: a seed may be among it."""

_said: Set[str] = set()
"""What was warned of already: once is enough in a loop of a million steps."""


def config(path: Optional[str] = None, /, **defaults: Any) -> Dict[str, Any]:
    """This job's config, over the defaults given here.

    From gpulane; without one, from `--config` on the command line (JSON text or the path of a JSON file), so that
    the same script runs by hand. If a JSON file `path` is named, it stands between the two: over the defaults, below
    the job's own. A key replaces another whole: nested objects are not merged.

    >>> gpulane.config(lr=1e-3, epochs=10)
    {'lr': 0.001, 'epochs': 10}
    >>> os.environ["GPULANE_CONFIG"] = '{"lr": 0.1}'     # as in a sweep
    >>> gpulane.config(lr=1e-3, epochs=10)
    {'lr': 0.1, 'epochs': 10}
    """
    _needs_a_job("config")
    base = {} if path is None else _base(path)
    found = {**defaults, **base, **_given()}
    _chosen.update(found)
    return found


def out() -> Path:
    """Where this job's output belongs, as a folder that is there.

    Under gpulane it appears at its final place when the job has succeeded; without one it is `--out DIR` of the
    command line, or else `out` in the current directory.

    >>> (gpulane.out() / "model.txt").write_text("weights")
    7
    >>> gpulane.out()
    PosixPath('out')
    """
    _needs_a_job("out")
    folder = Path(os.environ.get("GPULANE_OUT") or _argument("--out") or "out")
    # Of a run nothing above it is made: where the run directory was moved away, output at its old place would be lost.
    alone = "GPULANE_RUN" not in os.environ
    try:
        folder.mkdir(parents=alone, exist_ok=True)
    except FileNotFoundError as error:
        raise OSError(
            error.errno, "the run directory was moved away or removed while this job ran", str(folder)
        ) from None
    except (FileExistsError, NotADirectoryError) as error:
        raise OSError(error.errno, "a file stands where the folder for output should be", str(folder)) from None
    return folder


def seed(n: Optional[int] = None) -> int:
    """Seeds `random`, and numpy and torch where they are imported already; returns the seed.

    Without `n` it is the config's `seed`, be it only a default given to `config()` before, or 0. Call it after the
    imports. It makes no kernel deterministic: that is torch's `use_deterministic_algorithms`.

    >>> gpulane.seed(7)
    7
    >>> first = random.random()
    >>> gpulane.seed(7) and random.random() == first
    True
    """
    if n is None:
        _needs_a_job("seed")
    given = {**_chosen, **_given()}.get("seed", 0) if n is None else n
    wanted = _whole(given)
    if wanted is None or not 0 <= wanted <= LARGEST_SEED:
        raise ValueError(f"a seed is a whole number from 0 to {LARGEST_SEED}, not {given!r}")
    import random

    random.seed(wanted)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(wanted)
    if torch is not None:
        torch.manual_seed(wanted)  # All GPUs too, later if CUDA is not in use yet.
    return wanted


def _whole(value: Any) -> Optional[int]:
    """Of numpy too; but no yes or no."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def rank() -> Tuple[int, int]:
    """Which of how many processes of one job this is: `(rank, world_size)`, and `(0, 1)` when there is but one.

    From what torchrun sets, or else Slurm. Under gpulane Slurm's variables describe gpulane, not the job, and do not
    count.

    >>> gpulane.rank()
    (0, 1)
    >>> os.environ.update(RANK="1", WORLD_SIZE="4")      # as torchrun does
    >>> gpulane.rank()
    (1, 4)
    """
    names = [("RANK", "WORLD_SIZE")]
    if "GPULANE_RUN" not in os.environ:
        names.append(("SLURM_PROCID", "SLURM_NTASKS"))
    for mine, all_of_us in names:
        here, count = os.environ.get(mine, ""), os.environ.get(all_of_us, "")
        if here.isdigit() and count.isdigit() and int(here) < int(count):
            return int(here), int(count)
    return 0, 1


def log(metrics: Optional[Mapping[str, Any]] = None, /, **values: Any) -> None:
    """Notes metrics, by name or as a dict, each call one line and a sign of life. Never fails, never waits for gpulane,
    prints nothing; what cannot be noted is warned of once. Without a gpulane nothing happens.

    Numbers of numpy, torch and kin are taken as numbers (a tensor on a GPU is fetched), what is no number as text. NaN
    and the infinities, which JSON does not have, become "NaN", "Infinity" and "-Infinity". `time` is added.

    >>> for step in range(3):
    ...     gpulane.log(step=step, loss=1 / (step + 1))
    """
    path = os.environ.get("GPULANE_METRICS")
    if not path:
        return
    try:
        given = {**(metrics or {}), **values}
        if "time" in given:
            _warn_once("gpulane.log: `time` is when a line was written; call yours another name")
        noted = {str(name): _plain(value) for name, value in given.items()}
        noted["time"] = _now()
        line = (json.dumps(noted, allow_nan=False) + "\n").encode()
        # One call on a descriptor that appends: lines of several threads and processes do not mix.
        os.write(_sink(path), line)
    except OSError as error:
        # A full disk is no reason to end a training.
        _warn_once(f"gpulane.log: metrics are lost, {path}: {error.strerror}")
    except Exception as error:
        _warn_once(f"gpulane.log: metrics are lost: {type(error).__name__}: {error}")


def done() -> None:
    """Says that the work is finished and all output written. If the process then does not exit within the stage's
    `grace`, gpulane ends it, and it has succeeded. Without a gpulane nothing happens.

    >>> gpulane.done()
    """
    path = os.environ.get("GPULANE_DONE")
    if not path:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # Closed or missing: nothing to write out.
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError as error:
        raise OSError(error.errno, f"gpulane cannot be told that the work is done: {error.strerror}", path) from None
    _ring()


def _needs_a_job(name: str) -> None:
    """An entry's file is imported before there is a job; what it would be told then belongs to none."""
    if "GPULANE_RUN" in os.environ and "GPULANE_OUT" not in os.environ:
        raise RuntimeError(
            f"gpulane.{name}() was called while the file is imported, before there is a job; call it inside the "
            'function that `entry` names, or write standbys = "off" in the plan and run it anew'
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
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
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


def _warn_once(text: str) -> None:
    if text in _said:
        return
    _said.add(text)
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except Warning:
        pass  # Whoever turns warnings into errors does not mean a training's metrics.


def _given() -> Dict[str, Any]:
    """The config as gpulane or the command line has it."""
    text = os.environ.get("GPULANE_CONFIG")
    if text:
        return _an_object(text, "GPULANE_CONFIG")
    file = os.environ.get("GPULANE_CONFIG_FILE")
    if file:
        return _an_object(_text_of(file, "GPULANE_CONFIG_FILE"), file)
    given = _argument("--config")
    return {} if given is None else _read(given, "--config")


def _base(path: Any) -> Dict[str, Any]:
    """What a script names as its own config file."""
    if isinstance(path, Mapping):
        raise TypeError("gpulane.config takes defaults by their names: write gpulane.config(**defaults)")
    return _read(os.fspath(path), "gpulane.config")


def _read(given: str, source: str) -> Dict[str, Any]:
    if _is_text(given):
        return _an_object(given, source)
    return _an_object(_text_of(given, source), given)


def _argument(name: str) -> Optional[str]:
    """What stands behind an option of the script's own command line."""
    words = sys.argv[1:]
    for index, word in enumerate(words):
        if word == name:
            value = words[index + 1] if index + 1 < len(words) else ""
            if value and not value.startswith("--"):
                return value
        elif word.startswith(name + "="):
            value = word[len(name) + 1 :]
            if value:
                return value
        else:
            continue
        raise ValueError(f"{name} needs a value: write {name} {EXAMPLES[name]}")
    return None


def _is_text(given: str) -> bool:
    """Whether it is JSON and no path. Only an object is right; a list or a string is better named than looked for."""
    first = given.lstrip()[:1]
    return first == "{" or (first in ("[", '"') and not os.path.exists(given))


def _text_of(path: str, source: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        why = f"{source}: the config cannot be read: {error.strerror}; give a JSON file, or the JSON text itself"
        raise OSError(error.errno, why, path) from None


def _an_object(text: str, source: str) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f'{source} is not JSON: {error}; write for example {{"lr": 0.001}}') from None
    if not isinstance(value, dict):
        raise ValueError(
            f'{source} must be a JSON object, not {type(value).__name__}; write for example {{"lr": 0.001}}'
        )
    return value
