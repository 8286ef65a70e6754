"""`gpulane.run` and `gpulane.map`: what they are given as the program's arguments."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

from ._arguments import Arguments, words_of
from ._begin import STDIN, flags, tell
from ._binary import binary
from ._errors import GpulaneError, PlanError
from ._options import MAP, RUN, STAGE, check_known
from ._run import Run, start
from ._target import ENTRY, target_of
from ._toml import name_in, toml

__all__ = ["map", "run"]

AnyPath = Union[str, "os.PathLike[str]"]


@overload
def run(
    plan: Union[AnyPath, Mapping[str, Any], None] = None,
    *,
    dry_run: Literal[True],
    **options: Any,
) -> None: ...
@overload
def run(
    plan: Union[AnyPath, Mapping[str, Any], None] = None,
    *,
    command: Optional[Sequence[Any]] = None,
    entry: Union[str, Callable[..., Any], None] = None,
    sets: Optional[Mapping[str, Any]] = None,
    gpus: Union[str, int, Sequence[int], None] = None,
    lanes: Optional[int] = None,
    name: Optional[str] = None,
    run_dir: Optional[AnyPath] = None,
    dry_run: Literal[False] = False,
    wait: bool = True,
    wait_for: Optional[str] = None,
    quiet: bool = False,
    **options: Any,
) -> Run: ...
def run(
    plan: Union[AnyPath, Mapping[str, Any], None] = None,
    *,
    command: Optional[Sequence[Any]] = None,
    entry: Union[str, Callable[..., Any], None] = None,
    sets: Optional[Mapping[str, Any]] = None,
    gpus: Union[str, int, Sequence[int], None] = None,
    lanes: Optional[int] = None,
    name: Optional[str] = None,
    run_dir: Optional[AnyPath] = None,
    dry_run: bool = False,
    wait: bool = True,
    wait_for: Optional[str] = None,
    quiet: bool = False,
    **options: Any,
) -> Optional[Run]:
    """Runs a plan: many jobs, each a process of its own, on all GPUs of this machine.

    >>> sweep = run(command=["sh", "-c", "echo {lr} > {out}/lr"], sets={"lr": [0.1, 0.01]}, gpus="none", quiet=True)
    >>> sweep.ok
    True
    >>> [row["config"] for row in sweep.results(as_="list")]
    [{'lr': 0.1}, {'lr': 0.01}]
    >>> run(command=["echo", "{lr}"], sets={"lr": [0.1]}, gpus="none", dry_run=True)
    run/lr=0.1    echo 0.1
    1 job in 1 stage; nothing was started

    `plan` is the path of a TOML file, or a dict of the same shape; or `command`, with `sets` for what to go
    through: `{KEY}` in the command is replaced; or `entry`, a function that takes `(config, out)`: itself, or as
    `"train.py:main"`. Further `options` are then keys of a stage, such as `retries=1`, `timeout="2h"`, `memory="auto"`,
    `zip=[["lr", "wd"]]`; `job_gpus` is how many GPUs each job takes.

    `gpus`: `"all"`, `"0,2"`, `[0, 2]`, `"none"`, `"sim:8x24GiB"`. `run_dir`: a new directory, by default under `runs/`.
    `wait_for="30m"`: give up if no GPU comes free in this time. `dry_run=True` prints the jobs there would be, starts
    nothing and returns None. `headroom`, `foreign` and `trust_dir` as on the command line.

    It is shown while it runs, in a notebook as a card, and returned when it has ended, whatever became of its jobs: see
    `Run.ok`, `Run.check()`, `Run.results()`. With `wait=False` it is returned when it has begun; it then ends with this
    Python at the latest. A mistake in the plan is a `PlanError`, and nothing was started.
    """
    general = {key: options.pop(key) for key in RUN if key in options}
    if callable(plan):
        raise PlanError("a function is no plan; give it as entry=: run(entry=main, sets={'lr': [0.1, 0.3]})")
    if sets is not None and not isinstance(sets, Mapping):
        raise TypeError(f"sets= is a dict, not a {type(sets).__name__}: sets={{'lr': [0.1, 0.3], 'steps': [10, 20]}}")
    if sum(one is not None for one in (plan, command, entry)) > 1:
        raise PlanError("give a plan, a command or an entry, not several: a plan's stages have commands of their own")
    if plan is None:
        check_known(run, options, STAGE, "for the jobs: sets")
    if plan is not None:
        if options or sets:
            wrong = next(iter(options or {"sets": sets}))
            raise PlanError(
                f"{wrong}= goes with command= and entry=; with a plan, write it into the plan, under its stage"
            )
        given = plan
    elif command is not None:
        words = _words(command)
        given = _of_stage({"command": words}, sets or {}, options, name or os.path.basename(words[0]))
    elif entry is not None:
        if not (isinstance(entry, (str, os.PathLike)) or inspect.isfunction(entry) or inspect.isclass(entry)):
            raise PlanError(f"entry= is a function, or the text FILE.py:NAME, not {entry!r}")
        target = target_of(entry, ENTRY)
        # As `python` in a command: the one that runs this.
        options.setdefault("python", sys.executable)
        file = os.path.basename(target.rpartition(":")[0] or target)
        given = _of_stage({"entry": target}, sets or {}, options, name or os.path.splitext(file)[0])
    else:
        raise PlanError(
            "give a plan, a command or an entry: run('sweep.toml'), run(command=['python', 'train.py']), "
            "run(entry='train.py:main')"
        )
    with _Stdin() as stdin:
        if isinstance(given, Mapping):
            text = toml(given)
            stdin.write(text)
            name = name or name_in(text) or "run"
            file = STDIN
        else:
            file = os.fspath(given)
        settings = {"gpus": _gpus(gpus), "lanes": lanes, "name": name, "wait": wait_for, **general}
        last = os.path.abspath(file) if file.startswith("-") else file
        if dry_run:
            tell([binary(), "run", "--dry-run", *flags({**settings, "run_dir": run_dir}), last], stdin.file)
            return None
        path, made = _directory(run_dir, name or _name_of(Path(file)))
        argv = [binary(), "run", "--json", *flags({**settings, "run_dir": path}), last]
        begun = _started(argv, path, made, quiet, stdin)
        # At once, so that an interrupt finds somebody waiting.
        return begun.wait() if wait else begun


@overload
def map(
    model: Union[AnyPath, type, Callable[..., Any]],
    *inputs: Union[AnyPath, Iterable[AnyPath]],
    out: AnyPath,
    dry_run: Literal[True],
    **options: Any,
) -> None: ...
@overload
def map(
    model: Union[AnyPath, type, Callable[..., Any]],
    *inputs: Union[AnyPath, Iterable[AnyPath]],
    out: AnyPath,
    decode: Optional[str] = None,
    batch: Optional[int] = None,
    format: Optional[str] = None,
    args: Optional[Mapping[str, Any]] = None,
    set: Arguments = None,
    gpus: Union[str, int, Sequence[int], None] = None,
    lanes: Optional[int] = None,
    python: Optional[AnyPath] = None,
    dry_run: Literal[False] = False,
    wait: bool = True,
    wait_for: Optional[str] = None,
    quiet: bool = False,
    **options: Any,
) -> Run: ...
def map(
    model: Union[AnyPath, type, Callable[..., Any]],
    *inputs: Union[AnyPath, Iterable[AnyPath]],
    out: AnyPath,
    decode: Optional[str] = None,
    batch: Optional[int] = None,
    format: Optional[str] = None,
    args: Optional[Mapping[str, Any]] = None,
    set: Arguments = None,
    gpus: Union[str, int, Sequence[int], None] = None,
    lanes: Optional[int] = None,
    python: Optional[AnyPath] = None,
    dry_run: bool = False,
    wait: bool = True,
    wait_for: Optional[str] = None,
    quiet: bool = False,
    **options: Any,
) -> Optional[Run]:
    """Runs one model over many items, such as files, and keeps every result exactly once.

    >>> from pathlib import Path
    >>> _ = Path("count.py").write_text("def count(texts): return [len(text.split()) for text in texts]")
    >>> _ = Path("a.txt").write_text("three words here")
    >>> counted = map("count.py:count", "a.txt", out="counts", decode="text", format="jsonl", gpus="none", quiet=True)
    >>> counted.results(as_="list")
    [{'item': 'a.txt', 'result': 3}]

    `args` are the model's arguments, by name, each with the type it has here (`"3"` stays text); `set` is the same:

    >>> _ = Path("long.py").write_text("def long(texts, least): return [len(text) >= least for text in texts]")
    >>> found = map("long.py:long", "a.txt", out="long", args={"least": 3}, decode="text", format="jsonl",
    ...             gpus="none", quiet=True)
    >>> found.results(as_="list")
    [{'item': 'a.txt', 'result': True}]

    `model` is `"FILE.py:NAME"`, or a class or function. One that is defined in a notebook's cell is written to a file
    under `runs/cells` if it needs nothing that only the notebook has; otherwise the error says what that is.
    `inputs` are files, folders, patterns and so on, as `gpulane map` takes them, or lists of paths. `out` is a new
    directory for the results, and the run's own. The workers' Python is this one, unless `python` names another.
    Further `options` are those of the command line: `threads=8`, `max_failures="5%"`.

    Shown, waited for and returned as by `run`; `dry_run=True` prints how many items and workers there would be, starts
    nothing and returns None.
    """
    words, listed = _inputs(inputs)
    check_known(map, options, MAP, "for the model: args")
    settings: Dict[str, Any] = {"out": os.fspath(out), "decode": decode, "batch": batch, "format": format}
    settings.update(gpus=_gpus(gpus), lanes=lanes, wait=wait_for, python=python or sys.executable or None, **options)
    settings["set"] = words_of(args, set)
    if isinstance(settings.get("members"), (list, tuple)):
        settings["members"] = ",".join(settings["members"])
    how = "--dry-run" if dry_run else "--json"
    argv = [binary(), "map", how, *flags(settings), "--", target_of(model), *words]
    with _Stdin() as stdin:
        stdin.write("".join(f"{line}\n" for line in listed))
        if dry_run:
            tell(argv, stdin.file)
            return None
        # Rather now than when hours of work are to be read.
        if format in (None, "parquet") and not quiet and importlib.util.find_spec("pyarrow") is None:
            warnings.warn(
                "results() of Parquet files needs pyarrow, which is not here; format='jsonl' needs nothing",
                RuntimeWarning,
                stacklevel=2,
            )
        begun = start(argv, Path(out), quiet=quiet, stdin=stdin.file)
        return begun.wait() if wait else begun


class _Stdin:
    """What the program reads from its standard input: a file without a name, so that nothing is left of it whoever is
    killed."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile(prefix="gpulane-")

    def write(self, text: str) -> None:
        self.file.write(text.encode("utf-8", "surrogateescape"))
        self.file.seek(0)

    def __enter__(self) -> _Stdin:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _words(command: Sequence[Any]) -> List[str]:
    if isinstance(command, (str, bytes)) or (isinstance(command, Sequence) and not command):
        raise PlanError("command= is a list of words, never a shell's line: command=['python', 'train.py']")
    if not isinstance(command, Sequence):
        raise TypeError(f"command= is a list of words, not a {type(command).__name__}: command=['python', 'train.py']")
    for word in command:
        if word is None or isinstance(word, (bytes, Mapping, list, tuple)):
            raise TypeError(f"{word!r} in command= is a {type(word).__name__}; words are text, numbers or paths")
    return [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in command]


def _of_stage(what: Dict[str, Any], sets: Mapping[str, Any], options: Dict[str, Any], name: str) -> Dict[str, Any]:
    """A plan with one stage, named as the program names it."""
    matrix: Dict[str, Any] = {key: _several(values) for key, values in sets.items()}
    for key in ("zip", "exclude", "include"):
        if key in options:
            matrix[key] = options.pop(key)
    if "job_gpus" in options:
        options["gpus"] = options.pop("job_gpus")
    return {"name": name, "stage": [{"name": "run", **what, **options, **({"matrix": matrix} if matrix else {})}]}


def _several(values: Any) -> Any:
    """A single value is a list of one."""
    alone = isinstance(values, (str, bytes, bool, int, float, Mapping)) or values is None
    return [values] if alone else list(values)


def _name_of(file: Path) -> str:
    """The name of a plan. One that cannot be read is the program's to complain of."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return name_in(file.read_text(encoding="utf-8")) or file.stem
    return file.stem


def _directory(run_dir: Optional[AnyPath], name: str) -> Tuple[Path, bool]:
    """Where the run goes, and whether we made it. mkdir decides who is first of two that begin in the same second."""
    if run_dir is not None:
        return Path(run_dir), False
    safe = re.sub(r"[^A-Za-z0-9._=,+-]", "-", name).lstrip(".-") or "run"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    for count in range(1, 1000):
        path = Path("runs") / (f"{safe}-{stamp}" if count == 1 else f"{safe}-{stamp}-{count}")
        path.parent.mkdir(mode=0o755, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            return path, True
    raise GpulaneError(f"runs/ has a thousand runs of {safe} that began at {stamp}; give run_dir=")


def _started(argv: List[str], path: Path, made: bool, quiet: bool, stdin: _Stdin) -> Run:
    try:
        return start(argv, path, quiet=quiet, stdin=stdin.file)
    except BaseException:
        if made:
            with contextlib.suppress(OSError):
                path.rmdir()  # Empty if nothing was started; else it stays.
        raise


def _gpus(gpus: Union[str, int, Sequence[int], None]) -> Optional[str]:
    if gpus is None or isinstance(gpus, str):
        return gpus
    return str(gpus) if isinstance(gpus, int) else ",".join(str(each) for each in gpus)


def _inputs(inputs: Tuple[Any, ...]) -> Tuple[List[str], List[str]]:
    """Inputs as words, and the paths of lists: these go by standard input, for there may be millions."""
    if not inputs:
        raise PlanError("map has no input: give files, folders, patterns or lists of paths after the model")
    words: List[str] = []
    listed: List[str] = []
    for each in inputs:
        if isinstance(each, (str, os.PathLike)):
            words.append(os.fspath(each))
            continue
        before = len(listed)
        listed += _paths(each)
        if len(listed) > before and "@-" not in words:
            words.append("@-")
    if not words:
        raise PlanError("map has no items: every list of inputs that was given is empty")
    return words, listed


def _paths(given: Any) -> Iterator[str]:
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise PlanError(f"{given!r} is a {type(given).__name__}: inputs are paths, patterns, or lists of paths")
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            raise PlanError(f"{path!r} in a list of inputs is a {type(path).__name__}, not a path")
        text = os.fspath(path)
        if "\n" in text:
            raise PlanError(f"{text!r} in a list of inputs has a line break, which ends an item there")
        yield text
