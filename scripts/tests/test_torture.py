"""The torture's own machinery: a seed gives the same rounds, and the judge notices what it is there for."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from torture import faults, journal  # noqa: E402
from torture.judge import Judge  # noqa: E402
from torture.rounds import Options, Round  # noqa: E402
from torture.story import Happened, JobStory, StageStory, Story  # noqa: E402


def composed(seed: int, number: int) -> tuple[str, list[faults.Fault]]:
    options = Options(Path("gpulane"), seed, Path("nowhere"), {"plain", "small", "image"}, faults.catalogue())
    one = Round(options, number)
    return one.story.tell(), one.faults


def sealed(events: list[journal.Event]) -> list[bytes]:
    """The lines of a journal with these events."""
    bodies = [json.dumps({"seq": seq, **event}).encode()[:-1] for seq, event in enumerate(events, 1)]
    return [body + f',"crc":"{zlib.crc32(body):08x}"}}\n'.encode() for body in bodies]


class Seeds(unittest.TestCase):
    def test_a_seed_gives_the_same_stories_and_faults(self) -> None:
        for number in range(60):
            self.assertEqual(composed(7, number), composed(7, number))

    def test_another_seed_gives_others(self) -> None:
        self.assertNotEqual([composed(7, n) for n in range(5)], [composed(8, n) for n in range(5)])

    def test_every_kind_has_its_turn(self) -> None:
        kinds = {kind.name for kind in faults.catalogue() if kind.needs <= {"small", "image"} | faults.STORIES}
        met = {fault.kind for number in range(2 * len(kinds)) for fault in composed(7, number)[1]}
        self.assertEqual(kinds - met, set())


class Judging(unittest.TestCase):
    """One job that succeeded, and what is said of it."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_dir, self.notes = Path(folder.name) / "r", Path(folder.name) / "log"
        self.out = self.run_dir / "jobs/s/n=1/out"
        self.out.mkdir(parents=True)
        self.notes.mkdir()
        data = b"token\nsome data"
        (self.out / "f0").write_bytes(data)
        whole = {"token": "token", "files": {"f0": hashlib.sha256(data).hexdigest()}, "source": None}
        (self.out / "whole.json").write_text(json.dumps(whole))
        self.note("start", token="token", ignored=[], blocked=[])
        self.events = [
            {"event": "run_started"},
            {"event": "job_started", "job": "s/n=1", "attempt": 1, "pid": 7},
            {"event": "job_succeeded", "job": "s/n=1", "attempt": 1},
            {"event": "run_finished", "succeeded": 1, "failed": 0, "skipped": 0},
        ]

    def note(self, at: str, **more: object) -> None:
        with open(self.notes / "s@n=1", "a") as file:
            file.write(json.dumps({"at": at, "attempt": 1, **more}) + "\n")

    def violations(self) -> list[str]:
        (self.run_dir / "journal.jsonl").write_bytes(b"".join(sealed(self.events)))
        job = JobStory("s/n=1", "s", {})
        story = Story("none", stages=[StageStory("s", {"retries": 1}, [job])])
        verdict = Judge(story, Happened(), self.run_dir, self.notes).judge()
        return [violation.split(":")[0] for violation in verdict.violations]

    def test_what_is_well_passes(self) -> None:
        self.assertEqual(self.violations(), [])

    def test_an_output_cut_short(self) -> None:
        (self.out / "f0").write_bytes(b"")
        self.assertIn("every output once and whole", self.violations())

    def test_a_start_after_the_success(self) -> None:
        self.note("start", token="another", ignored=[], blocked=[])
        self.assertIn("no success is run again", self.violations())

    def test_a_second_success(self) -> None:
        self.events.insert(3, self.events[2])
        self.assertIn("every job ends once", self.violations())

    def test_a_failure_without_a_cause(self) -> None:
        self.events.insert(2, {"event": "job_failed", "job": "s/n=1", "attempt": 1, "reason": "signal", "signal": 9})
        self.assertIn("every failure has its cause", self.violations())

    def test_a_record_that_was_changed(self) -> None:
        self.violations()
        path = self.run_dir / "journal.jsonl"
        path.write_bytes(path.read_bytes().replace(b"n=1", b"n=2", 1))
        self.assertNotEqual(journal.read(path).faults, [])


class Following(unittest.TestCase):
    def test_what_is_left_of_a_journal_that_was_cut_is_not_new(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.jsonl"
            lines = sealed([{"event": name} for name in ("run_started", "job_started", "job_failed", "run_resumed")])
            follower = journal.Follower(path)
            path.write_bytes(b"".join(lines[:3]))
            self.assertEqual(len(follower.poll()), 3)
            path.write_bytes(lines[0] + lines[1][:20])
            self.assertEqual(follower.poll(), [])
            path.write_bytes(lines[0] + lines[3])
            self.assertEqual([event["event"] for event in follower.poll()], ["run_resumed"])


if __name__ == "__main__":
    unittest.main()
