"""The demo's programs work by themselves, as any job's program should."""

import json
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent.parent / "crates" / "cli" / "demo"


class Demo(unittest.TestCase):
    def test_a_model_is_trained_and_evaluated(self):
        with tempfile.TemporaryDirectory() as folder:
            config = json.dumps({"data": "moons", "width": 2, "lr": 0.1})
            train = [sys.executable, str(DEMO / "train.py"), "--config", config, "--out", f"{folder}/model"]
            lines = subprocess.run(train, check=True, capture_output=True, text=True).stdout.splitlines()
            self.assertEqual(sum(line.startswith("epoch") for line in lines), 5)
            evaluate = [sys.executable, str(DEMO / "evaluate.py"), f"{folder}/model", "--out", f"{folder}/metrics"]
            subprocess.run(evaluate, check=True, capture_output=True)
            metrics = json.loads(Path(folder, "metrics", "metrics.json").read_text())
            self.assertGreater(metrics["accuracy"], 0.8)

    def test_a_wrong_config_is_refused_in_plain_words(self):
        done = subprocess.run(
            [sys.executable, str(DEMO / "train.py"), "--config", '{"data": "cats"}', "--out", "/nonexistent"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("no data named 'cats'", done.stderr)

    def test_the_plan_has_thirteen_models(self):
        train, evaluate = tomllib.loads((DEMO / "plan.toml").read_text())["stage"]
        axes = [len(values) for values in train["matrix"].values()]
        self.assertEqual(axes[0] * axes[1] * axes[2] + len(train["job"]), 13)
        self.assertEqual((evaluate["foreach"], evaluate["parallel"]), ("train", 1))


if __name__ == "__main__":
    unittest.main()
