"""Evaluates a model of train.py on points it has never seen. Plain Python 3.8 or newer, no packages, no GPU.

    python3 evaluate.py model --out metrics
"""

import argparse
import json
import os
from pathlib import Path

from train import make_points, score

UNSEEN_POINTS = 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("input", nargs="?", default=os.environ.get("GPULANE_INPUT", "."), help="folder with model.json")
    parser.add_argument("--out", default=os.environ.get("GPULANE_OUT", "."), help="folder for metrics.json")
    arguments = parser.parse_args()

    trained = json.loads((Path(arguments.input) / "model.json").read_text())
    config = trained["config"]
    # Training uses even seeds, evaluation odd ones: no point is in both.
    points = make_points(config.get("data", "moons"), UNSEEN_POINTS, seed=2 * config.get("seed", 0) + 1)
    accuracy, loss = score(trained["model"], points)
    print(f"accuracy {accuracy:.1%}  loss {loss:.3f}  on {UNSEEN_POINTS} unseen points")

    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    metrics = {"accuracy": round(accuracy, 4), "loss": round(loss, 4), "points": UNSEEN_POINTS}
    (out / "metrics.json").write_text(json.dumps(metrics))


if __name__ == "__main__":
    main()
