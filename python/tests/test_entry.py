"""A function that a plan names is run as the job it is, cold or from a standby."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import unittest
from typing import Dict

from .entries import PACKAGE, RUNNER, Folder, Standby


class Cold(Folder):
    def test_is_called_with_what_it_takes(self) -> None:
        for signature, shown in [
            ("config, out", "(0.5, 'out')"),
            ("out, config", "(0.5, 'out')"),
            ("config", "(0.5, None)"),
            ("out", "(None, 'out')"),
            ("", "(None, None)"),
            ("*, out, config=None", "(0.5, 'out')"),
            ("config=None, out=None, seed=3", "(0.5, 'out')"),
        ]:
            with self.subTest(signature):
                self.write(
                    f"def main({signature}):\n"
                    "    c, o = locals().get('config'), locals().get('out')\n"
                    "    print((c and c['lr'], o and o.name))\n"
                )
                done = self.cold("train.py:main")
                self.assertEqual((done.returncode, done.stdout.strip()), (0, shown), done.stderr)

    def test_other_names_take_config_and_out_in_this_order(self) -> None:
        self.write("def main(cfg, folder): print(cfg['lr'], folder.name)\n")
        self.assertEqual(self.cold("train.py:main").stdout, "0.5 out\n")

    def test_what_has_a_default_keeps_it(self) -> None:
        for signature, shown in [
            ("cfg, verbose=False", "[{'lr': 0.5}, False]"),
            ("cfg, folder, verbose=False", "[{'lr': 0.5}, 'out', False]"),
            ("cfg, verbose=False, out=None", "[{'lr': 0.5}, False, 'out']"),
            ("out, cfg", "['out', {'lr': 0.5}]"),
            ("config, folder", "[{'lr': 0.5}, 'out']"),
            ("config, model=None", "[{'lr': 0.5}, None]"),
            ("verbose=False, config=None, out=None", "[False, {'lr': 0.5}, 'out']"),
            ("rate=0.1, epochs=3", "[0.1, 3]"),
            ("verbose=False, cfg=None", "[False, {'lr': 0.5}]"),
            ("cfg=None, folder=None, seed=3", "[{'lr': 0.5}, 'out', 3]"),
            ("cfg=None, out=None", "[{'lr': 0.5}, 'out']"),
            ("out=None, cfg=None", "['out', {'lr': 0.5}]"),
            ("config, lr=3", "[{'lr': 0.5}, 3]"),
            ("cfg, *more", "[{'lr': 0.5}, (PosixPath('out'),)]"),
            ("config, **more", "[{'lr': 0.5}, {}]"),
            ("config, /, out", "[{'lr': 0.5}, 'out']"),
            ("cfg, folder, /", "[{'lr': 0.5}, 'out']"),
        ]:
            with self.subTest(signature):
                self.write(
                    f"def main({signature}):\n"
                    "    import pathlib; P = type(pathlib.Path())\n"
                    "    print([one.name if isinstance(one, P) else one for one in list(locals().values())[: -2]])\n"
                )
                done = self.cold("train.py:main", GPULANE_OUT="out")
                self.assertEqual((done.returncode, done.stdout.strip()), (0, shown), done.stderr)

    def test_the_configs_values_are_not_passed_one_by_one(self) -> None:
        for signature in ("lr, seed", "config, lr", "lr", "**config", "**more"):
            with self.subTest(signature):
                self.write(f"def main({signature}): print('ran')\n")
                done = self.cold("train.py:main")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(
                    f"main({signature}) is not called with the config's values one by one; write", done.stderr
                )
                self.assertIn('main(config, out) and read config["lr"]', done.stderr)

    def test_a_dotted_name_and_a_coroutine(self) -> None:
        self.write("class T:\n    @staticmethod\n    async def go(config): print('ran', config['lr'])\n")
        self.assertEqual(self.cold("train.py:T.go").stdout, "ran 0.5\n")

    def test_a_trace_shows_only_the_users_lines(self) -> None:
        self.write("def main(config):\n    return config['no such key']\n")
        done = self.cold("train.py:main")
        self.assertEqual(done.returncode, 1)
        self.assertIn("KeyError: 'no such key'", done.stderr)
        self.assertNotIn("_entry.py", done.stderr)

    def test_an_exit_is_respected(self) -> None:
        for text, code in [("sys.exit(7)", 7), ("sys.exit()", 0), ("sys.exit('sorry')", 1)]:
            self.write(f"import sys\ndef main():\n    {text}\n")
            self.assertEqual(self.cold("train.py:main").returncode, code, text)

    def test_what_cannot_be_run_is_said_in_one_line(self) -> None:
        self.write("main = 3\ndef three(a, b, c): pass\ndef keyword(*, a): pass\n")
        for target, words in [
            ("train.py:absent", "has no `absent`"),
            ("train.py:main", "cannot be called"),
            ("train.py:three", "three(a, b, c) must take"),
            ("train.py:keyword", "keyword(*, a) must take"),
            ("gone.py:main", "there is no file"),
        ]:
            done = self.cold(target)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_what_would_run_nothing_is_no_success(self) -> None:
        for text, name, word in [
            ("def main(config): yield config\n", "main", "`main` of train.py has a `yield`"),
            ("async def main(config): yield config\n", "main", "`main` of train.py has a `yield`"),
            ("class T:\n    def go(self): print('ran')\n", "T.go", "`T.go` of train.py is a method"),
        ]:
            with self.subTest(text):
                self.write(text)
                done = self.cold(f"train.py:{name}")
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"gpulane: {word}", done.stderr)
                self.assertNotIn("Traceback", done.stderr)
        self.write("def main():\n    print('ran')\n    return (one for one in 'abc')\n")
        self.assertEqual(self.cold("train.py:main").stdout, "ran\n", "what is returned is not looked at")
        self.write("class T:\n    @classmethod\n    def go(cls): print(cls.__name__)\nt = T.go\n")
        self.assertEqual([self.cold(f"train.py:{name}").stdout for name in ("T.go", "t")], ["T\n", "T\n"])

    def test_a_failed_import_has_a_hint(self) -> None:
        for text, hint in [
            ("import os\nout = os.environ['GPULANE_OUT']\n", "GPULANE_OUT is not set while the file is imported"),
            ("import nowhere_to_be_found\n", f"this is the Python of {sys.executable}"),
        ]:
            self.write(text + "def main(): pass\n")
            last = self.cold("train.py:main").stderr.splitlines()[-1]
            self.assertIn(f"gpulane: {hint}", last)
        self.assertIn(hint, self.cold("train.py:main", alone=True).stderr, "without standbys, too")
        self.write("import os\nhome = os.environ['NO_SUCH_HOME']\ndef main(): pass\n")
        self.assertNotIn("gpulane:", self.cold("train.py:main").stderr)

    def test_neighbours_with_the_names_of_the_library_do_no_harm(self) -> None:
        for name in ("queue", "socket", "traceback", "array", "json"):
            self.write("raise RuntimeError('the wrong one')\n", f"{name}.py")
        self.write("import helper\ndef main(): print(helper.WORD, __name__)\n")
        self.write("WORD = 'found'\n", "helper.py")
        done = self.cold("train.py:main")
        self.assertEqual(done.stdout, "found train\n", done.stderr)

    @unittest.skipIf(sys.version_info < (3, 11), "has no safe path")
    def test_the_files_folder_takes_the_place_of_no_other(self) -> None:
        self.write("import sys\ndef main(): print(sys.path)\n")
        plain = ast.literal_eval(self.cold("train.py:main").stdout)
        safe = ast.literal_eval(self.cold("train.py:main", PYTHONSAFEPATH="1").stdout)
        self.assertEqual(plain[0], str(self.folder))
        self.assertIn(str(PACKAGE), plain)
        self.assertEqual(safe, plain)

    def test_children_of_multiprocessing_find_the_module(self) -> None:
        self.write(
            "import multiprocessing, os\n"
            "def square(x): return x * x\n"
            "def main(config):\n"
            "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
            "        print(pool.map(square, [3, 4]))\n"
        )
        done = self.cold("train.py:main")
        self.assertEqual(done.stdout, "[9, 16]\n", done.stderr)

    def test_the_import_sees_nothing_of_the_job_unless_there_are_no_standbys(self) -> None:
        self.write("import os\nseen = os.environ.get('GPULANE_OUT')\ndef main(out): print(seen, out.name)\n")
        self.assertEqual(self.cold("train.py:main").stdout, "None out\n")
        alone = [sys.executable, str(RUNNER), "--alone", "train.py:main"]
        environment = {**self.environment(), **self.job()}
        done = subprocess.run(alone, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, f"{self.folder / 'out'} out\n")
        self.write("import gpulane\ngpulane.config()\ndef main(out): pass\n")
        refused = self.cold("train.py:main", GPULANE_RUN=str(self.folder))
        self.assertIn("gpulane.config() was called while the file is imported", refused.stderr)


class Waiting(Standby):
    """What a standby does."""

    def test_imports_first_and_becomes_the_job_later(self) -> None:
        self.write(
            "import os, sys\n"
            "print('imported', os.environ['GPULANE_ATTEMPT'])\n"
            "def main(config, out):\n"
            "    print('ran', config['lr'], os.environ['GPULANE_JOB'], file=sys.stderr)\n"
            "    print('open', sorted(os.listdir('/proc/self/fd'))[:3], 'GPULANE_STANDBY' in os.environ)\n"
            "    (out / 'model').write_text('x')\n"
        )
        self.start("train.py:main")
        self.assertIn("seconds", self.hear()["ready"])
        self.hand_over({**self.job(), "GPULANE_JOB": "train/a"})
        self.assertEqual(self.hear(), {"begun": {}})
        code, (out, err) = self.end()
        self.assertEqual((code, err), (0, "ran 0.5 train/a\n"))
        self.assertEqual(out, "imported 0\nopen ['0', '1', '2'] False\n")
        self.assertTrue((self.folder / "out" / "model").exists())

    def test_what_was_printed_is_given_to_the_log_and_kept_nowhere_else(self) -> None:
        self.write(
            "import subprocess, sys\n"
            "print('early'); print('warning', file=sys.stderr)\n"
            "child = subprocess.Popen(['sh', '-c', 'read line; echo $line'], stdin=subprocess.PIPE)\n"
            "def main():\n"
            "    child.communicate(b'late')\n"
        )
        self.start("train.py:main")
        self.assertIn("ready", self.hear())
        self.hand_over(self.job())
        self.assertEqual(self.hear(), {"begun": {}})
        self.assertEqual(self.end(), (0, ["early\n", "warning\n"]))
        texts = []
        for file in self.printed:
            file.seek(0)
            texts.append(file.read())
        self.assertEqual(texts, [b"late\n", b""], "what a child prints there later stands alone")

    def test_a_file_that_the_import_prints_to_instead_is_not_touched(self) -> None:
        self.write(
            "import os\nos.dup2(os.open('own.txt', os.O_RDWR | os.O_CREAT), 1)\nprint('mine')\ndef main(): pass\n"
        )
        self.start("train.py:main")
        self.assertIn("ready", self.hear())
        self.hand_over(self.job())
        self.assertEqual(self.end(), (0, ["", ""]))
        self.assertEqual((self.folder / "own.txt").read_text(), "mine\n")

    def test_a_job_may_come_before_the_import_is_done(self) -> None:
        self.write("import time; time.sleep(0.3)\ndef main(config): print(config['lr'])\n")
        self.start("train.py:main")
        self.hand_over(self.job())
        self.assertEqual(self.end(), (0, ["0.5\n", ""]))

    def test_what_a_library_would_import_later_is_imported_ahead(self) -> None:
        (self.folder / "torch").mkdir()
        self.write("", "torch/__init__.py")
        for importing, later, told in [
            ("import torch", "", "True\n"),
            ("", "", "False\n"),
            ("import torch", "raise OSError('no such library')", "False\n"),
        ]:
            with self.subTest(importing=importing, later=later):
                self.write(later, "torch/_dynamo.py")
                self.write(f"{importing}\nimport sys\ndef main(): print('torch._dynamo' in sys.modules)\n")
                self.start("train.py:main")
                self.assertIn("ready", self.hear())
                self.hand_over(self.job())
                self.assertEqual(self.end(), (0, [told, ""]))

    def test_an_import_that_closes_what_is_not_its_own_fails_no_job(self) -> None:
        self.write("import os\nos.closerange(3, 4096)\ndef main(): print('ran')\n")
        self.start("train.py:main")
        self.assertIsNone(self.hear())
        self.assertEqual(self.end(), (0, ["", ""]))

    def test_a_job_that_is_there_already_does_not_wait_for_it(self) -> None:
        (self.folder / "torch").mkdir()
        self.write("", "torch/__init__.py")
        self.write("raise SystemExit('not now')", "torch/_dynamo.py")
        self.write("import time, torch; time.sleep(0.3)\ndef main(): print('ran')\n")
        self.start("train.py:main")
        self.hand_over(self.job())
        self.assertEqual(self.end(), (0, ["ran\n", ""]))

    def test_says_why_it_cannot_be_imported(self) -> None:
        self.write("import no_such_module\n")
        self.start("train.py:main")
        word = self.hear()
        self.assertEqual(word["failed"], "ModuleNotFoundError: No module named 'no_such_module'")
        self.assertIn("train.py", word["trace"])
        self.assertNotIn("_entry.py", word["trace"])
        self.assertEqual(self.process.wait(60), 1)
        self.printed[1].seek(0)
        self.assertIn(b"ModuleNotFoundError", self.printed[1].read())

    def test_what_it_says_is_short_and_text_whatever_the_error_is(self) -> None:
        for error in ("'\\U0001f600' * 20000", "'file \\udcff' * 20000", "'\\x00\\x1b' * 20000"):
            with self.subTest(error):
                self.write(f"raise ValueError({error})\n")
                self.start("train.py:main")
                data = self.ours.recv(1 << 20)
                self.assertLessEqual(len(data), 16 << 10)
                self.assertTrue(data.isascii())
                # Half a character cannot be encoded.
                self.assertTrue(json.loads(data)["failed"].encode().startswith(b"ValueError: "))

    def test_ends_when_no_job_can_come_any_more(self) -> None:
        self.write("def main(): pass\n")
        self.start("train.py:main")
        self.hear()
        self.ours.close()
        self.assertEqual(self.process.wait(60), 0)

    def test_asking_for_the_job_while_importing_is_an_error(self) -> None:
        for call in ("config", "out"):
            self.write(f"import gpulane\nthing = gpulane.{call}()\ndef main(): pass\n")
            self.start("train.py:main")
            self.assertIn(f"gpulane.{call}() was called while the file is imported", self.hear()["failed"])

    def test_a_worker_waits_with_its_model_imported(self) -> None:
        for safe in ({}, {"PYTHONSAFEPATH": "1"}):
            with self.subTest(safe):
                self.wait_as_worker(safe)

    def wait_as_worker(self, more: Dict[str, str]) -> None:
        self.write("print('imported')\nclass Embed:\n    def predict_batch(self, batch): return batch\n", "embed.py")
        self.start("embed.py:Embed", worker=True, **more)
        self.assertIn("ready", self.hear())
        # Without a feeder there is nothing to work for, and that is what it says.
        self.hand_over(self.job())
        code, (out, err) = self.end()
        self.assertEqual((code, out), (2, "imported\n"))
        self.assertIn("started by `gpulane map`", err)


if __name__ == "__main__":
    unittest.main()
