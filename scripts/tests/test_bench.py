"""The benchmarks measure what they say."""

import json
import math
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench" / "jobs"), str(ROOT / "bench" / "scale")]

import contestants  # noqa: E402
import memory  # noqa: E402
import plans  # noqa: E402
import reaction  # noqa: E402


class Reactions(unittest.TestCase):
    def read(self, lives):
        """`lives`: (start, end) in microseconds, in any order."""
        with tempfile.TemporaryDirectory() as folder:
            stamps = Path(folder) / "stamps"
            stamps.write_bytes(b"".join(reaction.RECORD.pack(1, a * 1000, b * 1000) for a, b in lives))
            return reaction.read(stamps, at_once=2)

    def test_a_start_is_paired_with_the_exit_that_allowed_it(self):
        # Lane one: 0-100, then 107. Lane two: 0-150, then 155.
        seen = self.read([(107, 300), (0, 100), (1, 150), (155, 310)])
        self.assertEqual((seen.jobs, seen.median_us, seen.most_at_once), (4, 6.0, 2))

    def test_more_than_two_at_once_is_noticed(self):
        self.assertEqual(self.read([(0, 100), (10, 110), (20, 120)]).most_at_once, 3)

    def test_too_few_jobs_or_half_a_record_is_refused(self):
        with self.assertRaises(ValueError):
            self.read([(0, 1), (0, 1)])
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(ValueError):
            (Path(folder) / "stamps").write_bytes(b"half")
            reaction.read(Path(folder) / "stamps", at_once=2)


class Programs(unittest.TestCase):
    def test_the_bare_loop_runs_every_job_two_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = {}
            for name in ("bare", "stamp"):
                programs[name] = str(Path(folder) / name)
                source = str(ROOT / "bench" / "jobs" / f"{name}.c")
                subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", source, "-o", programs[name]], check=True)
            stamps = Path(folder) / "stamps"
            argv = [programs["bare"], "40", "2", programs["stamp"], str(stamps), "2000"]
            subprocess.run(argv, check=True, capture_output=True)
            seen = reaction.read(stamps, at_once=2)
            self.assertEqual((seen.jobs, seen.most_at_once), (40, 2))
            self.assertGreater(seen.median_us, 0)

    def test_pueues_record_of_ends_is_read(self):
        task = {"status": {"Done": {"result": "Success", "end": "2026-01-01T00:00:01.123456789+00:00"}}}
        ends = contestants._pueue_ends(json.dumps({"tasks": {"0": task}}))
        self.assertAlmostEqual(ends[0] % 10, 1.123456, places=5)


class Scale(unittest.TestCase):
    def test_a_plan_has_exactly_as_many_jobs_as_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            for jobs in (1, 13, 1000, 10000):
                for shape in ("list", "grid"):
                    plan = tomllib.loads(plans.write(Path(folder) / "p.toml", jobs, shape).read_text())
                    axes = plan["stage"][0]["matrix"].values()
                    self.assertEqual(math.prod(len(values) for values in axes), jobs)

    def test_the_peak_of_a_process_is_seen(self):
        with memory.Watch(Path(sys.executable).resolve()) as watch:
            hold = "import sys; x = bytearray(50_000_000); x[::4096] = b'1' * len(x[::4096]); sys.stdin.read(); del x"
            child = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE)
            for _ in range(200):
                if watch._peaks.get(child.pid, 0) > 50_000_000:
                    break
                watch._stop.wait(0.05)
            child.communicate()
        self.assertGreater(watch._peaks.get(child.pid, 0), 50_000_000)


if __name__ == "__main__":
    unittest.main()
