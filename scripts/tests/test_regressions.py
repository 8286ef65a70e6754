"""The list of mended faults is read and checked; tests are run one by one and judged; nothing of them is left."""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import faults  # noqa: E402
import regressions  # noqa: E402
from faults import Fault, Test  # noqa: E402
from regressions import CANNOT, FAILS, PASSES, Outcome  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


class List(unittest.TestCase):
    def test_faults_come_in_the_order_of_their_points(self):
        found, wrong = faults.read(
            '[[fault]]\npoint = 9\nwhat = "b"\ntests = ["cli/signals::one", "python/test_worker.Life.test_x"]\n'
            '[[fault]]\npoint = 4\nwhat = "a"\ntests = ["decode/history::pairs::all"]\n'
        )
        self.assertEqual(wrong, [])
        self.assertEqual([fault.point for fault in found], [4, 9])
        rust, python = found[1].tests
        self.assertEqual((rust.crate, rust.file, rust.inside, rust.is_python), ("cli", "signals", "one", False))
        self.assertEqual((python.inside, python.is_python), ("test_worker.Life.test_x", True))
        self.assertEqual(found[0].tests[0].inside, "pairs::all")

    def test_what_is_wrong_with_it_is_said(self):
        for text, words in [
            ("[[fault", "no TOML"),
            ('[[fault]]\npoint = "4"\nwhat = "a"\ntests = ["cli/a::b"]', "block 1 needs point"),
            ('[[fault]]\npoint = 4\nwhat = "a"\ntests = []', "block 1 needs point"),
            ('[[fault]]\npoint = 4\nwhat = "a"\ntests = ["cli/a"]', "`cli/a` is neither"),
            ('[[fault]]\npoint = 4\nwhat = "a"\ntests = ["python/a"]', "`python/a` is neither"),
        ]:
            with self.subTest(text):
                _, wrong = faults.read(text)
                self.assertEqual(len(wrong), 1)
                self.assertIn(words, wrong[0])

    def test_a_test_that_is_not_there_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            rust, python = root / "crates/cli/tests", root / "python/tests"
            (rust / "zoo").mkdir(parents=True)
            python.mkdir(parents=True)
            (rust / "zoo.rs").write_text("mod more;\n#[test]\nfn one() {}\n")
            (rust / "zoo/more.rs").write_text("#[test]\nfn two() {}\n")
            (python / "test_a.py").write_text(
                "class Base:\n    def test_x(self): ...\nclass A(Base):\n    def test_y(self): ...\n"
            )
            there = [
                "cli/zoo::one",
                "cli/zoo::more::two",
                "python/test_a.A",
                "python/test_a.A.test_x",
                "python/test_a.A.test_y",
            ]
            gone = [
                "cli/zoo::three",
                "cli/other::one",
                "gpu/zoo::one",
                "python/test_b.A.test_x",
                "python/test_a.B.test_x",
            ]
            gone += ["python/test_a.A.test_z"]
            found = list(faults.missing(root, [Fault(1, "x", [Test(name) for name in there + gone])]))
        self.assertEqual([one.rpartition(" ")[2] for one in found], gone)

    def test_our_own_is_right(self):
        found, wrong = faults.read((ROOT / faults.LIST).read_text(encoding="utf-8"))
        self.assertEqual(wrong, [])
        self.assertEqual(list(faults.missing(ROOT, found)), [])


class Python(unittest.TestCase):
    """Tests of Python in a tree of this test's making."""

    def outcome(self, text, timeout=60.0, name="test_it.It.test_one"):
        with tempfile.TemporaryDirectory() as folder:
            tests = Path(folder, "python", "tests")
            tests.mkdir(parents=True)
            (tests / "__init__.py").write_text("")
            head = "import unittest, os, subprocess, sys, time\n"
            (tests / "test_it.py").write_text(head + textwrap.dedent(text))
            return regressions.python_test(Path(folder), Test(f"python/{name}"), dict(os.environ), timeout)

    def test_each_end_is_judged(self):
        case = "class It(unittest.TestCase):\n    def test_one(self): {}\n"
        for text, expected in [
            (case.format("pass"), Outcome(PASSES)),
            (case.format("self.assertEqual(1, 2)"), Outcome(FAILS, "AssertionError: 1 != 2")),
            (case.format("self.skipTest('no GPU')"), Outcome(CANNOT, "it was skipped")),
            (
                "import no_such_module\n" + case,
                Outcome(CANNOT, "ModuleNotFoundError: No module named 'no_such_module'"),
            ),
            (case.replace("test_one", "test_two").format("pass"), None),
            (
                case.format("open(os.environ['GPULANE_TEST_SKIPS'], 'w').write('it: not root')"),
                Outcome(CANNOT, "it: not root"),
            ),
        ]:
            with self.subTest(text):
                outcome = self.outcome(text)
                self.assertEqual(
                    outcome.what if expected is None else outcome, CANNOT if expected is None else expected
                )

    def test_one_that_hangs_has_failed_and_leaves_nothing(self):
        text = """
            class It(unittest.TestCase):
                def test_one(self):
                    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
                    time.sleep(3600)
        """
        regressions.adopt_orphans()
        begun = time.monotonic()
        self.assertEqual(self.outcome(text, timeout=1.0), Outcome(FAILS, "it did not end in time"))
        self.assertLess(time.monotonic() - begun, 60)
        self.assertEqual(regressions.living_children(os.getpid()), [])


class Rust(unittest.TestCase):
    def test_a_panic_and_a_missing_test_are_told_apart(self):
        script = "#!/bin/sh\n{}\n"
        for said, expected in [
            ("echo 'test result: ok. 1 passed; 0 failed'", Outcome(PASSES)),
            ("echo 'test result: ok. 0 passed; 0 failed'", Outcome(CANNOT, "no such test in the file")),
            (
                "printf \"thread 'x' panicked at a.rs:1:2:\\nit is lost\\nnote\\n\"; exit 101",
                Outcome(FAILS, "it is lost"),
            ),
        ]:
            with self.subTest(said), tempfile.TemporaryDirectory() as folder:
                program = Path(folder, "program")
                program.write_text(script.format(said))
                program.chmod(0o755)
                Path(folder, "crates/cli").mkdir(parents=True)
                built = Outcome("built", str(program))
                outcome = regressions.rust_test(Path(folder), Test("cli/a::b"), built, dict(os.environ), 60.0)
                self.assertEqual(outcome, expected)

    def test_what_does_not_compile_there_cannot_be_run_there(self):
        cannot = Outcome(CANNOT, "does not compile there: no such function")
        self.assertEqual(regressions.rust_test(ROOT, Test("gpu/a::b"), cannot, {}, 1.0), cannot)
        error = {"reason": "compiler-message", "message": {"level": "error", "message": "cannot find `x`"}}
        self.assertEqual(regressions.first_error([{"reason": "build"}, error]), "cannot find `x`")


class Verdict(unittest.TestCase):
    def test_a_fault_that_no_test_notices_is_named(self):
        tests = [Test("cli/a::one"), Test("cli/a::two"), Test("cli/a::three")]
        listed = [Fault(3, "three", tests[:2]), Fault(5, "five", tests[2:])]
        noticed = {
            tests[0]: (Outcome(FAILS), None),
            tests[1]: (Outcome(PASSES), None),
            tests[2]: (Outcome(FAILS), None),
        }
        self.assertEqual(regressions.verdict(listed, noticed), 0)
        self.assertNotIn("noticed by no test", regressions.table(listed, noticed, "abc"))
        blind = {**noticed, tests[2]: (Outcome(CANNOT, "does not compile"), None)}
        self.assertEqual(regressions.verdict(listed, blind), 1)
        shown = regressions.table(listed, blind, "abc")
        self.assertIn("noticed by no test there: point 5", shown)
        self.assertIn("cannot run there: does not compile  cli/a::three", shown)
        broken = {**noticed, tests[0]: (Outcome(FAILS), Outcome(FAILS))}
        self.assertEqual(regressions.verdict(listed, broken), 1)

    def test_its_help_says_what_it_does(self):
        told = subprocess.run(
            [sys.executable, str(ROOT / "scripts/regressions.py"), "--help"], capture_output=True, text=True
        )
        self.assertEqual(told.returncode, 0)
        for word in ("--binary", "--current", "--keep", "8243d2a"):
            self.assertIn(word, told.stdout)


if __name__ == "__main__":
    unittest.main()
