"""What the tests of entries have in common: a folder with a job, cold or in the hands of a standby."""

from __future__ import annotations

import array
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

PACKAGE = Path(__file__).resolve().parent.parent
RUNNER = PACKAGE / "gpulane" / "_entry.py"


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        (self.folder / "out").mkdir()

    def write(self, text: str, name: str = "train.py") -> None:
        (self.folder / name).write_text(text)

    def job(self, config: str = '{"lr": 0.5}') -> Dict[str, str]:
        return {"GPULANE_CONFIG": config, "GPULANE_OUT": str(self.folder / "out"), "GPULANE_ATTEMPT": "1"}

    def environment(self) -> Dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPULANE_")}
        return {**clean, "PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": "1"}

    def cold(
        self, target: str, config: str = '{"lr": 0.5}', alone: bool = False, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(RUNNER), *(["--alone"] if alone else []), target],
            cwd=self.folder,
            env={**self.environment(), **self.job(config), **more},
            capture_output=True,
            text=True,
            timeout=60,
        )


class Standby(Folder):
    """One, with this test in gpulane's place."""

    def start(self, target: str, *, worker: bool = False, **more: str) -> None:
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.ours.close)
        self.ours.settimeout(60)
        self.printed = [tempfile.TemporaryFile() for _ in range(2)]
        self.logs = [tempfile.TemporaryFile() for _ in range(2)]
        for file in self.printed + self.logs:
            self.addCleanup(file.close)
        number = theirs.fileno()
        standby = {"GPULANE_STANDBY": str(number), "GPULANE_ATTEMPT": "0", "GPULANE_JOB": "train/standby-1"}
        standby["GPULANE_RUN"] = str(self.folder)
        self.process = subprocess.Popen(
            [sys.executable, str(RUNNER), *(["--worker"] if worker else []), target],
            cwd=self.folder,
            env={**self.environment(), **standby, **more},
            stdin=subprocess.DEVNULL,
            stdout=self.printed[0],
            stderr=self.printed[1],
            pass_fds=[number],
        )
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        theirs.close()

    def hear(self) -> Any:
        data = self.ours.recv(1 << 16)
        return json.loads(data) if data else None

    def hand_over(self, job: Dict[str, str]) -> None:
        with tempfile.TemporaryFile() as orders:
            orders.write(b"".join(f"{name}={value}\0".encode() for name, value in job.items()))
            orders.flush()
            rights = array.array("i", [self.logs[0].fileno(), self.logs[1].fileno(), orders.fileno()])
            self.ours.sendmsg([b"job"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def end(self) -> Tuple[Optional[int], List[str]]:
        code = self.process.wait(60)
        texts = []
        for log in self.logs:
            log.seek(0)
            texts.append(log.read().decode())
        return code, texts
