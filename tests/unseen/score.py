#!/usr/bin/env python3
"""The score of the watchdog on the programs of this folder.

    tests/unseen/score.py GPULANE [--after SECONDS] [--lanes N] [--set N] [--keep FOLDER]
        [--python PYTHON] [NAME ...]

Runs every program twice under the real binary: as `hang` says by default, and with `outside` of three times `after`.
A frozen program is to be told within three times `after`, counted from its last words, with the right cause (a keyword
of the manifest in what is said); ended by proof where one holds; ended in any case with `outside`. A living one is
never ended: it is silent for two and a half times `after`, which is less than `outside`. `after` is 8 s, because the
eight wakes that make a monitor take 16 s at two seconds each. Exit code 1 if the score does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Told within so many times the limit; also what `outside` is.
TIMES = 3
# The least part of frozen programs that must be told in time with the right cause.
TOLD = 0.95
# Beside the limits: starting, compiling, ending, on a machine that is busy with the others.
SLACK = 90


@dataclass
class Seen:
    """One program in one run."""

    program: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    froze: float | None = None

    @property
    def name(self) -> str:
        return str(self.program["name"])

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    def told(self) -> dict[str, Any] | None:
        """The first word of it, if it came after its last."""
        return next(iter(self.of("hang_suspected")), None)

    def words(self) -> str:
        told = self.of("hang_suspected")
        keys = ("evidence", "waits_for", "cause", "proof")
        return "; ".join(str(event[key]) for event in told[:1] for key in keys if event.get(key))

    def delay(self) -> float | None:
        told = self.told()
        return None if told is None or self.froze is None else seconds(told) - self.froze

    def is_named(self) -> bool:
        """Whether a keyword is in what was said, as a word of its own; what a program is called does not count."""
        said = self.words().replace(self.name, "").lower()
        return any(re.search(rf"\b{re.escape(word.lower())}s?\b", said) for word in self.program["keywords"])

    def proven(self) -> bool:
        return any(event.get("frozen") for event in self.of("hang_suspected"))

    def ended(self) -> bool:
        """By the watchdog."""
        return any(event.get("reason") == "hang" for event in self.of("job_failed"))

    def lived(self) -> bool:
        return bool(self.of("job_succeeded"))


def seconds(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


def command(words: list[str], python: str) -> list[str]:
    words = [python if word == "{unseen}/venv/bin/python" else word for word in words]
    return [word.replace("{unseen}", str(HERE)) for word in words]


def stage(program: dict[str, Any], folder: Path, options: argparse.Namespace, outside: bool) -> str:
    hang = f'after = "{options.after}s", action = "fail"'
    if outside:
        hang += f', outside = "{TIMES * options.after}s"'
    env = f"UNSEEN_TMP = {json.dumps(str(folder))}, UNSEEN_SECONDS = {json.dumps(str(silence(options)))}"
    return (
        f'[[stage]]\nname = {json.dumps(program["name"])}\ngrace = "1s"\nhang = {{ {hang} }}\n'
        f'env = {{ {env}, PYTHONDONTWRITEBYTECODE = "1" }}\n'
        f"command = {json.dumps(command(program['argv'], options.python))}\n"
    )


def silence(options: argparse.Namespace) -> int:
    return int(options.after) * 5 // 2


def read(journal: Path) -> list[dict[str, Any]]:
    try:
        lines = journal.read_text().splitlines()
    except OSError:
        return []
    events = []
    for line in lines:
        start = line.find("{")
        try:
            events.append(json.loads(line[start:]))
        except ValueError:
            continue
    return events


class Visit:
    """Some programs at once, in one run."""

    def __init__(self, programs: list[dict[str, Any]], options: argparse.Namespace, outside: bool) -> None:
        self.options, self.outside = options, outside
        self.seen = {program["name"]: Seen(program) for program in programs}
        self.base = Path(tempfile.mkdtemp(prefix="gpulane-unseen-"))
        self.run_dir = self.base / "run"
        self.neighbours: list[subprocess.Popen[bytes]] = []

    def play(self) -> list[Seen]:
        plan = 'name = "unseen"\n'
        for seen in self.seen.values():
            folder = self.base / seen.name
            folder.mkdir()
            plan += stage(seen.program, folder, self.options, self.outside)
            if seen.program["neighbour"]:
                self.neighbours.append(self.neighbour(seen.program["neighbour"], folder))
        (self.base / "plan.toml").write_text(plan)
        words = [self.options.gpulane, "run", "plan.toml", "--gpus", "none", "--lanes", str(len(self.seen))]
        with open(self.base / "front.log", "w") as log:
            front = subprocess.Popen([*words, "--run-dir", "run"], cwd=self.base, stdout=log, stderr=log)
        try:
            self.watch(front)
        finally:
            subprocess.run([self.options.gpulane, "cancel", "run"], cwd=self.base, capture_output=True, check=False)
            try:
                front.wait(60)
            except subprocess.TimeoutExpired:
                front.kill()
            for neighbour in self.neighbours:
                if neighbour.poll() is None:
                    os.killpg(neighbour.pid, signal.SIGKILL)
                neighbour.wait()
        self.keep()
        return list(self.seen.values())

    def neighbour(self, words: list[str], folder: Path) -> subprocess.Popen[bytes]:
        env = os.environ | {"UNSEEN_TMP": str(folder), "UNSEEN_SECONDS": str(silence(self.options))}
        with open(folder / "neighbour.log", "w") as log:
            return subprocess.Popen(
                command(words, self.options.python),
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def watch(self, front: subprocess.Popen[bytes]) -> None:
        begun, patience = time.monotonic(), TIMES * self.options.after * 2 + SLACK
        while front.poll() is None and time.monotonic() - begun < patience:
            time.sleep(0.2)
            self.look()
            if all(self.is_settled(seen) for seen in self.seen.values()):
                break
        self.look()

    def look(self) -> None:
        for seen in self.seen.values():
            log = self.run_dir / "jobs" / seen.name / "main/attempt-1/stdout.log"
            if seen.froze is None and log.exists() and "frozen soon" in log.read_text(errors="replace"):
                seen.froze = log.stat().st_mtime
            seen.events = []
        for event in read(self.run_dir / "journal.jsonl"):
            name = str(event.get("job", "")).removesuffix("/main")
            if name in self.seen:
                self.seen[name].events.append(event)
        for seen in self.seen.values():
            # Those of the later sets have no last words: the earliest moment counts.
            if seen.froze is None and seen.program.get("set", 1) > 1:
                seen.froze = next((seconds(event) for event in seen.of("job_started")), None)

    def is_settled(self, seen: Seen) -> bool:
        """Whether more time would show nothing new of it."""
        if seen.lived() or seen.of("job_failed"):
            return True
        if seen.program["kind"] == "living" or seen.froze is None:
            return False
        # One that is told may be proven a little later.
        limit = TIMES * self.options.after
        return not self.outside and time.time() - seen.froze > limit + 10

    def keep(self) -> None:
        if self.options.keep:
            kept = Path(self.options.keep) / ("outside" if self.outside else "default")
            for seen in self.seen.values():
                shutil.copytree(self.run_dir / "jobs" / seen.name / "main", kept / seen.name, dirs_exist_ok=True)
                (kept / seen.name / "events.json").write_text(json.dumps(seen.events, indent=1))
        shutil.rmtree(self.base, ignore_errors=True)


def row(plain: Seen, outside: Seen) -> str:
    def fate(seen: Seen) -> str:
        if seen.lived():
            return "lived"
        if seen.ended():
            return "proven" if seen.proven() else "ended"
        return "failed" if seen.of("job_failed") else "told" if seen.told() else "unseen"

    delay = plain.delay()
    told = "" if delay is None else f"{delay:.0f} s"
    named = "" if not plain.told() else "named" if plain.is_named() else "MISNAMED"
    closed = {True: "closed", False: "open", None: ""}[plain.program["closed"]]
    start = f"{plain.program['kind']:6} {plain.name:32} {closed:6} {fate(plain):7} {told:>5} {named:8}"
    return f"{start} {fate(outside):7} {plain.words()[:150]}"


def score(plain: list[Seen], outside: list[Seen], options: argparse.Namespace) -> bool:
    frozen = [seen for seen in plain if seen.program["kind"] == "frozen"]
    limit = TIMES * options.after
    in_time = [seen for seen in frozen if (delay := seen.delay()) is not None and delay <= limit and seen.is_named()]
    closed = [seen for seen in frozen if seen.program["closed"]]
    proven = [seen for seen in closed if seen.proven()]
    open_ones = [seen for seen in frozen if seen.program["closed"] is False]
    wrong = [seen.name for seen in open_ones if seen.proven()]
    late = [seen for seen in outside if seen.program["kind"] == "frozen"]
    ended = [seen for seen in late if seen.ended()]
    living = [[seen for seen in run if seen.program["kind"] == "living"] for run in (plain, outside)]
    killed = [[seen.name for seen in run if not seen.lived()] for run in living]
    missed = [seen.name for seen in frozen if seen not in in_time]
    only_told = [seen.name for seen in closed if not seen.proven()]
    left = [seen.name for seen in late if not seen.ended()]
    print(f"frozen, told within {limit} s with the right cause: {len(in_time)} of {len(frozen)}; not: {missed}")
    print(f"frozen and closed, ended by proof: {len(proven)} of {len(closed)}; only told: {only_told}")
    print(f"frozen and open, ended as if proven: {len(wrong)} of {len(open_ones)} {wrong}")
    print(f"frozen, ended with outside = {limit} s: {len(ended)} of {len(late)}; not: {left}")
    print(f"living, ended at the default: {len(killed[0])} of {len(living[0])} {killed[0]}")
    print(f"living, ended with outside = {limit} s: {len(killed[1])} of {len(living[1])} {killed[1]}")
    return len(in_time) >= TOLD * len(frozen) and not wrong and len(ended) == len(late) and not any(killed)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("gpulane", type=os.path.abspath)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--set", type=int, choices=(1, 2, 3, 4), help="only those of one author")
    parser.add_argument("--after", type=int, default=8)
    parser.add_argument("--lanes", type=int, default=25, help="programs at once")
    parser.add_argument("--python", default=str(HERE / "venv/bin/python"), help="one that has what requirements.txt names")
    parser.add_argument("--keep", help="a folder for the logs, stacks and events of each program")
    options = parser.parse_intermixed_args()
    programs = json.loads((HERE / "manifest.json").read_text())
    programs = [one for one in programs if not options.names or one["name"] in options.names]
    programs = [one for one in programs if options.set in (None, one.get("set", 1))]
    tools = {
        one["name"]: {*one["argv"][:1], *(["gcc", "g++"] if "runc.sh" in " ".join(one["argv"]) else [])}
        for one in programs
    }
    absent = [name for name, words in tools.items() if not all(shutil.which(word) for word in words if "/" not in word)]
    if absent:
        print(f"left out, since what they are started with is not here: {absent}", file=sys.stderr)
        programs = [one for one in programs if one["name"] not in absent]
    # Those that begin slowly (compilers, Java) are spread over all visits.
    visits = -(-len(programs) // options.lanes)
    results: list[dict[str, Seen]] = []
    for outside in (False, True):
        seen: dict[str, Seen] = {}
        for number in range(visits):
            some = programs[number::visits]
            print(f"{'outside' if outside else 'default'}: {len(some)} programs", file=sys.stderr, flush=True)
            seen |= {one.name: one for one in Visit(some, options, outside).play()}
        results.append(seen)
    for program in programs:
        print(row(results[0][program["name"]], results[1][program["name"]]))
    plain, ended = ([run[program["name"]] for program in programs] for run in results)
    return 0 if score(plain, ended, options) else 1


if __name__ == "__main__":
    sys.exit(main())
