"""Who takes part: how each runner is installed, started on N jobs two at once, and timed.

A runner that is one command is timed as a whole, from start to exit. A runner that is a service is timed from
submit to the last job's end, its service already up: that is in its favour.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional, Sequence

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
OUT = REPO / "bench" / "out"
VENV = REPO / "bench" / ".venv"
AT_ONCE = 2
LONGEST_SAMPLE_S = 240
LONGEST_INSTALL_S = 1800


class Absent(Exception):
    """This runner cannot take part; the message says why."""


class Broke(Exception):
    """This runner took part and failed; the message says how."""


@dataclass
class Contestant:
    """One job runner."""

    name: str
    title: str
    # Says what is timed and what the runner does for a job, where that needs saying.
    note: str
    # Makes the runner available and returns its version.
    install: Callable[[], str]
    # (command, count, empty folder) -> seconds
    time: Callable[[Sequence[str], int, Path], float]
    # Slow runners do fewer jobs; the table says so.
    most_jobs: Optional[int] = None
    # Where its folder must lie; by default under bench/out.
    folder_root: Path = field(default=OUT / "work")
    # Shown below the table, not in it.
    aside: bool = False
    # Its processes outlive their parents: what they use cannot be told from what others use.
    service: bool = False


def execute(
    argv: Sequence[str],
    folder: Path,
    stdin: Optional[Path] = None,
    env: Optional[dict] = None,
    limit: float = LONGEST_SAMPLE_S,
) -> tuple[float, str]:
    """Runs argv to its end in `folder`; its seconds and its stdout. Raises Broke with the end of its stderr."""
    errors = folder / ".stderr"
    with open(stdin or os.devnull, "rb") as source, open(errors, "wb") as stderr:
        begin = time.monotonic()
        process = subprocess.Popen(
            argv,
            cwd=folder,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise Broke(f"took more than {limit:.0f} s") from None
            raise
        seconds = time.monotonic() - begin
    if process.returncode != 0:
        tail = errors.read_text(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise Broke(f"exit code {process.returncode}: {tail[0][:200]}")
    return seconds, output.decode(errors="replace")


def _numbers(count: int, folder: Path) -> Path:
    path = folder / "numbers"
    path.write_text("".join(f"{i}\n" for i in range(count)))
    return path


def _install(argv: Sequence[str], log: str, env: Optional[dict] = None, cwd: Optional[Path] = None) -> None:
    path = OUT / f"install-{log}.log"
    with open(path, "wb") as output:
        try:
            code = subprocess.run(
                argv,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                timeout=LONGEST_INSTALL_S,
            ).returncode
        except FileNotFoundError:
            raise Absent(f"{argv[0]} is not on this machine") from None
        except subprocess.TimeoutExpired:
            raise Absent(f"installing took more than {LONGEST_INSTALL_S // 60} minutes") from None
    if code != 0:
        lines = path.read_text(errors="replace").strip().splitlines()
        why = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "no message")
        raise Absent(f"install failed: {why.strip()[:160]}")


def _pip(package: str, module: str) -> Callable[[], str]:
    def install() -> str:
        python = VENV / "bin" / "python"
        if not python.exists():
            _install([sys.executable, "-m", "venv", str(VENV)], "venv")
        version = [
            str(python),
            "-c",
            f"import importlib.metadata as m, importlib; importlib.import_module({module!r}); "
            f"print(m.version({package!r}))",
        ]
        found = subprocess.run(version, capture_output=True, text=True)
        if found.returncode != 0:
            _install([str(python), "-m", "pip", "install", "--quiet", package], package)
            found = subprocess.run(version, capture_output=True, text=True)
        if found.returncode != 0:
            raise Absent(f"installed, but `import {module}` fails: {found.stderr.strip().splitlines()[-1][:160]}")
        return found.stdout.strip()

    return install


def _driver(name: str) -> Callable[[Sequence[str], int, Path], float]:
    """A Python driver in the virtual environment that times itself, once its service is up."""

    def run(command: Sequence[str], count: int, folder: Path) -> float:
        python = VENV / "bin" / "python"
        _, output = execute([str(python), str(HERE / "drivers" / f"{name}.py"), str(count), str(folder), *command], folder)
        return float(json.loads(output.strip().splitlines()[-1])["seconds"])

    return run


# Compiled here ------------------------------------------------------------------------------------------------


def compile_c(name: str, *flags: str) -> Path:
    """Compiles bench/jobs/NAME.c into bench/out."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise Absent("no C compiler on this machine")
    binary = OUT / name
    built = subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", *flags, str(HERE / f"{name}.c"), "-o", str(binary)],
        capture_output=True,
        text=True,
    )
    if built.returncode != 0:
        raise Absent(f"{name}.c does not compile: {built.stderr.strip()[:200]}")
    return binary


def _install_bare() -> str:
    compile_c("bare")
    return ""


def _time_bare(command: Sequence[str], count: int, folder: Path) -> float:
    return execute([str(OUT / "bare"), str(count), str(AT_ONCE), *command], folder)[0]


# One command each ---------------------------------------------------------------------------------------------


def _install_xargs() -> str:
    found = shutil.which("xargs")
    if not found:
        raise Absent("xargs is not on this machine")
    first = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.splitlines()[:1]
    return first[0].split()[-1] if first else ""


def _time_xargs(command: Sequence[str], count: int, folder: Path) -> float:
    return execute(["xargs", "-n1", f"-P{AT_ONCE}", *command], folder, stdin=_numbers(count, folder))[0]


def _parallel_binary() -> Optional[str]:
    unpacked = OUT / "parallel" / "usr" / "bin" / "parallel"
    return str(unpacked) if unpacked.exists() else shutil.which("parallel")


def _install_parallel() -> str:
    if not _parallel_binary():
        if not (shutil.which("apt-get") and shutil.which("dpkg")):
            raise Absent("not on this machine, and no apt-get to fetch it with")
        # Unpacked under bench/out rather than installed: needs no root and changes nothing on the machine.
        OUT.joinpath("parallel").mkdir(parents=True, exist_ok=True)
        _install(
            ["bash", "-c", 'apt-get download parallel && dpkg -x parallel_*.deb "$0"', str(OUT / "parallel")],
            "parallel",
            cwd=OUT / "parallel",
        )
    binary = _parallel_binary()
    if not binary:
        raise Absent("fetched, but no program in the package")
    shown = subprocess.run([binary, "--version"], capture_output=True, text=True).stdout.splitlines()
    if not shown:
        raise Absent("fetched, but it does not run (it needs perl)")
    return shown[0].split()[-1]


def _time_parallel(command: Sequence[str], count: int, folder: Path) -> float:
    env = {"PARALLEL_HOME": str(folder / "home"), "PARALLEL_SHELL": "/bin/sh", "TMPDIR": str(folder)}
    folder.joinpath("home").mkdir()
    argv = [_parallel_binary() or "parallel", "--will-cite", f"-j{AT_ONCE}", *command, "{}"]
    return execute(argv, folder, stdin=_numbers(count, folder), env=env)[0]


def _time_simple_gpu_scheduler(command: Sequence[str], count: int, folder: Path) -> float:
    lines = folder / "commands"
    lines.write_text((" ".join(command) + "\n") * count)
    argv = [str(VENV / "bin" / "simple_gpu_scheduler"), "--gpus", *map(str, range(AT_ONCE))]
    return execute(argv, folder, stdin=lines)[0]


def _install_threads() -> str:
    return sys.version.split()[0]


def _time_threads(command: Sequence[str], count: int, folder: Path) -> float:
    return execute([sys.executable, str(HERE / "drivers" / "threads.py"), str(count), str(folder), *command], folder)[0]


# gpulane ------------------------------------------------------------------------------------------------------


def gpulane_binary() -> Path:
    """`GPULANE_BIN`, or the release build of this repository."""
    return Path(os.environ.get("GPULANE_BIN") or REPO / "target" / "release" / "gpulane").absolute()


def _install_gpulane(binary: Path) -> Callable[[], str]:
    def install() -> str:
        if not os.access(binary, os.X_OK):
            raise Absent(f"{binary} is not built: cargo build --release -p gpulane, or set GPULANE_BIN")
        shown = subprocess.run([str(binary), "--version"], capture_output=True, text=True)
        if shown.returncode != 0:
            raise Absent(f"`gpulane --version` exits with {shown.returncode}")
        return shown.stdout.split()[-1] if shown.stdout.split() else ""

    return install


def _time_gpulane(binary: Path) -> Callable[[Sequence[str], int, Path], float]:
    def run(command: Sequence[str], count: int, folder: Path) -> float:
        argv = [str(binary), "run", "--gpus", "none", "--lanes", str(AT_ONCE), "--quiet"]
        argv += ["--run-dir", str(folder / "run"), "-s", f"i=range({count})", "--", *command]
        return execute(argv, folder)[0]

    return run


def _earlier_gpulane() -> list[Contestant]:
    """An earlier gpulane beside this one, to see whether anything got slower; `GPULANE_BEFORE` names its program."""
    binary = os.environ.get("GPULANE_BEFORE")
    if not binary:
        return []
    path = Path(binary).absolute()
    note = "the program that GPULANE_BEFORE names"
    return [Contestant("gpulane-before", "gpulane before", note, _install_gpulane(path), _time_gpulane(path))]


# pueue --------------------------------------------------------------------------------------------------------


def _install_pueue() -> str:
    binary = OUT / "pueue" / "bin" / "pueue"
    if not binary.exists() and not shutil.which("pueue"):
        build = OUT / "pueue-build"
        argv = ["cargo", "install", "pueue", "--locked", "--root", str(OUT / "pueue"), "--target-dir", str(build)]
        _install(argv, "pueue", cwd=OUT)
        shutil.rmtree(build, ignore_errors=True)
    return subprocess.run([_pueue("pueue"), "--version"], capture_output=True, text=True).stdout.split()[-1]


def _pueue(program: str) -> str:
    installed = OUT / "pueue" / "bin" / program
    return str(installed) if installed.exists() else program


def _time_pueue(command: Sequence[str], count: int, folder: Path) -> float:
    """Jobs are added while the queue is paused; timed from the start to the end of the last by pueue's own record."""
    config = folder / "pueue.yml"
    config.write_text(
        f"shared:\n  pueue_directory: {folder}/data\n  runtime_directory: {folder}/data\n"
        f"  use_unix_socket: true\n  unix_socket_path: {folder}/socket\n"
    )
    folder.joinpath("data").mkdir()
    client = [_pueue("pueue"), "-c", str(config)]
    daemon = subprocess.Popen(
        [_pueue("pueued"), "-c", str(config)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until(lambda: subprocess.run([*client, "status"], capture_output=True).returncode == 0, 20, "pueued did not start")
        for words in (["parallel", str(AT_ONCE)], ["pause"]):
            execute([*client, *words], folder)
        for _ in range(count):
            execute([*client, "add", "--", *command], folder)
        begin = time.time()
        execute([*client, "start"], folder)
        ends: list[float] = []

        def all_ended() -> bool:
            ends[:] = _pueue_ends(execute([*client, "status", "--json"], folder)[1])
            return len(ends) == count

        _until(all_ended, LONGEST_SAMPLE_S, "jobs did not end", pause=0.5)
        return max(ends) - begin
    finally:
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _pueue_ends(status: str) -> list[float]:
    from datetime import datetime

    ends = []
    for task in json.loads(status)["tasks"].values():
        done = task["status"].get("Done") if isinstance(task["status"], dict) else None
        if done is None:
            continue
        if done["result"] != "Success":
            raise Broke(f"a task ended with {done['result']}")
        # Nanoseconds, which datetime does not read: cut to microseconds.
        head, _, tail = done["end"].partition(".")
        digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
        ends.append(datetime.fromisoformat(f"{head}.{digits[:6].ljust(6, '0')}{tail[len(digits):].replace('Z', '+00:00')}").timestamp())
    return ends


def _until(condition: Callable[[], bool], limit: float, otherwise: str, pause: float = 0.02) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise Broke(otherwise)
        time.sleep(pause)


def all_contestants() -> list[Contestant]:
    """In the order of the table. `bare` is first: the others are measured against it."""
    service = "service already up; timed from submit to the last end"
    memory = Path("/dev/shm/gpulane-bench")
    gpulane = gpulane_binary()
    return [
        Contestant("bare", "bare posix_spawn loop", "no logs, no journal, nothing", _install_bare, _time_bare),
        Contestant(
            "gpulane",
            "gpulane",
            "two log files, config, private output folder, environment and journal per job",
            _install_gpulane(gpulane),
            _time_gpulane(gpulane),
        ),
        *_earlier_gpulane(),
        Contestant("xargs", "xargs -P2", "no logs", _install_xargs, _time_xargs),
        Contestant("threads", "Python threads + subprocess", "no logs", _install_threads, _time_threads),
        Contestant(
            "simple_gpu_scheduler",
            "simple_gpu_scheduler",
            "a shell per job, no logs, exit codes not looked at",
            _pip("simple_gpu_scheduler", "simple_gpu_scheduler.scheduler"),
            _time_simple_gpu_scheduler,
        ),
        Contestant("ray", "Ray", f"{service}; a subprocess inside a warm worker", _pip("ray", "ray"), _driver("ray_local"), service=True),
        Contestant("hyperqueue", "HyperQueue", service, _pip("hyperqueue", "hyperqueue"), _driver("hyperqueue_local")),
        Contestant("parallel", "GNU parallel", "a shell per job, output collected", _install_parallel, _time_parallel),
        Contestant(
            "pueue",
            "pueue",
            "jobs added before the clock starts; timed to the last end by its own record",
            _install_pueue,
            _time_pueue,
            most_jobs=60,
            service=True,
        ),
        Contestant(
            "submitit",
            "submitit (local)",
            "has no limit of its own: the driver keeps two in flight",
            _pip("submitit", "submitit"),
            _driver("submitit_local"),
            most_jobs=20,
            service=True,
        ),
        Contestant(
            "gpulane-tmpfs",
            "gpulane, run directory in memory",
            "the same with the run directory on tmpfs",
            _install_gpulane(gpulane),
            _time_gpulane(gpulane),
            folder_root=memory,
            aside=True,
        ),
    ]
