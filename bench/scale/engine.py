"""Starts gpulane's engine alone in the foreground, as its guardian would, so that a tool can watch that one process.

The engine is the same program under the name `gpulane-engine`, with its orders in the environment (see orders.rs in
crates/runtime). This knows that much of gpulane's inside and no more; if it changes, the engine refuses and says why.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Sequence

NAME = "gpulane-engine"


def prepare(binary: Path, plan: Path, run: Path) -> None:
    """Makes a run directory in which nothing has run yet: one that has run, with all but its frozen plan removed."""
    argv = [str(binary), "run", "--gpus", "none", "--lanes", "2", "--quiet", "--run-dir", str(run), str(plan)]
    subprocess.run(argv, cwd=plan.parent, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=1800)
    for entry in run.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != "plan.json":
            entry.unlink()


def execute(tool: Sequence[str], binary: Path, run: Path) -> subprocess.CompletedProcess:
    """Runs `tool` with the engine of `run` behind it, to its end."""
    named = run.parent / "engine-bin"
    named.mkdir(exist_ok=True)
    if not (named / NAME).exists():
        shutil.copy2(binary, named / NAME)
    (run / "control").mkdir(exist_ok=True)
    ours, link = socket.socketpair()
    durable = os.memfd_create("durable")
    os.write(durable, bytes(8))
    lock = os.open(run / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    request = {"detached": True, "salvage": False, "failed": False, "gpus": None, "lanes": None}
    orders = {"dir": str(run), "request": request, "lock": lock, "link": link.fileno(), "durable": durable}
    orders.update(lifeline=None, guardian=None)
    env = {**os.environ, "GPULANE_ORDERS": json.dumps(orders), "PATH": f"{named}:{os.environ['PATH']}"}
    try:
        return subprocess.run(
            [*tool, NAME],
            env=env,
            cwd=run.parent,
            pass_fds=(lock, link.fileno(), durable),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=1800,
        )
    finally:
        ours.close()
        link.close()
        os.close(durable)
        os.close(lock)
