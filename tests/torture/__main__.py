"""`./x torture`: rounds side by side for so many minutes; then what was done, what was checked, what did not hold."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

from . import disks, faults, proc
from .control import build_preload, find_nvml
from .program import Program
from .rounds import Options, Outcome, Round
from .surroundings import OTHER_USER

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    options = parse()
    # Handlers, not what was inherited: started in the background, with SIGINT ignored, gpulane would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    base = Path(tempfile.mkdtemp(prefix="gpulane-torture-", dir=options.folder)).resolve()
    base.chmod(0o755)
    binary = options.binary.resolve()
    shared = Options(binary, options.seed, base, set(), faults.catalogue(), build_preload(base), find_nvml(binary))
    shared.have = what_there_is(shared)
    campaign = Campaign(shared, options)
    print(
        f"torture: {options.binary}, seed {options.seed}, {options.minutes:g} min, {options.beside} rounds at a time",
        flush=True,
    )
    try:
        campaign.run()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        campaign.interrupted = True
        campaign.stop.set()
    finally:
        campaign.clean_up()
    return campaign.report()


def what_there_is(shared: Options) -> set[str]:
    """What faults may need and this machine has; says what is missing."""
    have = {kind for kind, there in disks.available().items() if there}
    have |= ({"preload"} if shared.preload else set()) | ({"nvml"} if shared.nvml else set())
    if os.geteuid() == 0:
        have.add("root")
        probe = Program(shared.binary, shared.base, "probe").start(["--version"], {"user": OTHER_USER})
        if probe.wait(20) == 0:
            have.add("user")
        probe.close()
        probe.errors.unlink()
    lacking = {kind.name for kind in faults.catalogue() if not kind.needs <= have | faults.STORIES}
    if lacking:
        print(f"torture: cannot be tried here: {', '.join(sorted(lacking))}")
        print("torture: they need root, mounts, a C compiler, crates/fake-nvml, or a binary that others may run")
    return have


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./x torture", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=3.0, help="how long (default 3)")
    parser.add_argument("--seed", type=int, default=None, help="repeat what this seed gives")
    parser.add_argument("--round", type=int, default=None, help="only this round of the seed")
    parser.add_argument("--binary", type=Path, default=None, help="the gpulane to torture")
    parser.add_argument("--beside", type=int, default=3, help="rounds at a time (default 3)")
    parser.add_argument(
        "--folder", default=None, help="where rounds have their folders (default: the system's temporary one)"
    )
    parser.add_argument("--json", type=Path, default=None, help="write the counts into this file")
    parser.add_argument("--until-violation", action="store_true", help="stop at the first violation")
    parser.add_argument(
        "--without", default="", help="leave out kinds of faults whose name contains one of these, by commas"
    )
    parser.add_argument("--only", default=None, help="only kinds of faults whose name contains this")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "big")
    if options.binary is None:
        built = [ROOT / "target" / kind / "gpulane" for kind in ("release", "debug")]
        options.binary = max(
            (path for path in built if path.exists()), key=lambda path: path.stat().st_mtime, default=built[1]
        )
    if not options.binary.exists():
        parser.error(f"{options.binary} is not there; build it with `./x build`")
    return options


class Campaign:
    """Rounds side by side, and what they came to."""

    def __init__(self, shared: Options, options: argparse.Namespace) -> None:
        self.shared, self.options = shared, options
        without = [text for text in options.without.split(",") if text]
        shared.kinds = [kind for kind in shared.kinds if not any(text in kind.name for text in without)]
        shared.pictures = "pictures" not in without
        if options.only:
            shared.kinds = [kind for kind in shared.kinds if options.only in kind.name]
        self.outcomes: list[Outcome] = []
        self.broken: list[str] = []
        self.lock = threading.Lock()
        self.next = 0 if options.round is None else options.round
        self.began = time.monotonic()
        self.deadline = self.began + 60 * options.minutes
        self.stop = threading.Event()
        # Rounds under way are ended from outside and their folders removed: what they say then counts for nothing.
        self.interrupted = False

    def run(self) -> None:
        """Until time is up, or the one round is done."""
        beside = 1 if self.options.round is not None else self.options.beside
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(beside)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)

    def work(self) -> None:
        """One round after the other."""
        while not self.stop.is_set() and time.monotonic() < self.deadline:
            with self.lock:
                number, self.next = self.next, self.next + 1
            try:
                self.take(Round(self.shared, number).run())
            except Exception:
                if self.interrupted:
                    return
                with self.lock:
                    self.broken.append(f"round {number}: {traceback.format_exc()}")
                    print(self.broken[-1], flush=True)
            if self.options.round is not None:
                return

    def take(self, outcome: Outcome) -> None:
        """Keeps what a round came to, and shows at once what did not hold."""
        with self.lock:
            if self.interrupted:
                return
            self.outcomes.append(outcome)
            if outcome.verdict.violations:
                self.show(outcome)
                if self.options.until_violation:
                    self.stop.set()
            elif self.options.round is not None:
                print("\n".join([outcome.story, *outcome.diary]))

    def show(self, outcome: Outcome) -> None:
        """A violation with everything that is needed to see it again."""
        print(f"\nVIOLATION in round {outcome.number} after {time.monotonic() - self.began:.0f} s", flush=True)
        print(f"  again: ./x torture --seed {self.shared.seed} --round {outcome.number}")
        print(f"  kept:  {outcome.folder}")
        for line in outcome.verdict.violations:
            print(f"  * {line}")
        print("\n".join(f"  | {line}" for line in [*outcome.story.splitlines(), *outcome.diary]), flush=True)

    def clean_up(self) -> None:
        """Ends and removes everything but the folders of violations."""
        proc.end_all(f"{self.shared.base.name}-r")
        disks.forget_all()
        kept = {outcome.folder for outcome in self.outcomes if outcome.folder}
        for path in self.shared.base.iterdir():
            if path not in kept:
                shutil.rmtree(path, ignore_errors=True)
        if not kept:
            shutil.rmtree(self.shared.base, ignore_errors=True)

    def report(self) -> int:
        """The counts, and the last line."""
        struck: Counter[str] = sum((outcome.struck for outcome in self.outcomes), Counter())
        planned: Counter[str] = sum((outcome.planned for outcome in self.outcomes), Counter())
        checked: Counter[str] = sum((outcome.verdict.checked for outcome in self.outcomes), Counter())
        found: Counter[str] = Counter(line.split(":")[0] for o in self.outcomes for line in o.verdict.violations)
        seconds = time.monotonic() - self.began
        peaks: dict[str, int] = {}
        for outcome in self.outcomes:
            for target, peak in outcome.peaks.items():
                peaks[target] = max(peaks.get(target, 0), peak)
        print("\nfaults injected, and those planned that found nobody to strike in time")
        for kind in self.shared.kinds:
            print(f"  {struck[kind.name]:6} {planned[kind.name] - struck[kind.name]:6}  {kind.name}")
        print("invariants checked")
        for name, times in sorted(checked.items()):
            print(f"  {times:6}  {name}" + (f"   {found[name]} VIOLATED" if found[name] else ""))
        totals = {key: sum(getattr(outcome, key) for outcome in self.outcomes) for key in ("calls", "jobs", "items")}
        bad = sum(bool(outcome.verdict.violations) for outcome in self.outcomes)
        rounds = len(self.outcomes)
        done = ", ".join(f"{number} {what}" for what, number in totals.items())
        print(f"{rounds} rounds in {seconds:.0f} s: {done}, {struck.total()} faults of {len(struck)} kinds")
        print(
            f"{checked.total()} checks; memory: " + ", ".join(f"{who} {peak >> 20} MiB" for who, peak in peaks.items())
        )
        print(f"seed {self.shared.seed}: {rounds - bad} rounds passed, {bad + len(self.broken)} failed", flush=True)
        if self.options.json:
            counts = {"seed": self.shared.seed, "seconds": round(seconds), "rounds": rounds, **totals, "peaks": peaks}
            counts |= {
                "planned": dict(planned),
                "faults": dict(struck),
                "checked": dict(checked),
                "violations": dict(found),
            }
            self.options.json.write_text(json.dumps(counts, indent=1) + "\n")
        return 1 if bad or self.broken else 0


if __name__ == "__main__":
    sys.exit(main())
