"""Trains one tiny classifier of points in the plane. Plain Python 3.8 or newer, no packages, no GPU.

This is all a program needs to be a gpulane job: it reads its config as JSON, prints as it goes, and leaves its
result as files in the folder it was given. It knows nothing of gpulane and runs by itself just as well:

    python3 train.py --config '{"data": "moons", "width": 12, "lr": 0.1}' --out model
"""

import argparse
import json
import math
import os
import random
from pathlib import Path

EPOCHS = 250
TRAINING_POINTS = 360


def make_points(data, count, seed):
    """`count` labelled points ((x, y), label) of a named shape, with a little noise."""
    chance = random.Random(seed)
    points = []
    for number in range(count):
        label = number % 2
        t = chance.random()
        if data == "moons":
            angle = math.pi * t
            x, y = math.cos(angle), math.sin(angle)
            if label:
                x, y = 1.0 - x, 0.4 - y
            x, y = x - 0.5, y - 0.2
        elif data == "rings":
            radius = 0.5 + 0.5 * label
            x, y = radius * math.cos(2 * math.pi * t), radius * math.sin(2 * math.pi * t)
        elif data == "spirals":
            angle = 2.2 * math.pi * t + math.pi * label
            radius = 0.15 + 0.95 * t
            x, y = radius * math.cos(angle), radius * math.sin(angle)
        else:
            raise SystemExit(f"train.py: no data named {data!r}; there are moons, rings and spirals")
        noise = 0.25 if data == "moons" else 0.12 if data == "rings" else 0.05
        points.append(((x + chance.gauss(0, noise), y + chance.gauss(0, noise)), label))
    return points


def new_model(width, seed):
    """One hidden layer of `width` tanh units: rows of (weight x, weight y, bias, outgoing weight), and a bias."""
    chance = random.Random(seed)
    units = [[chance.gauss(0, 1.5), chance.gauss(0, 1.5), chance.gauss(0, 0.5), chance.gauss(0, 0.5)] for _ in range(width)]
    return {"units": units, "bias": 0.0}


def predict(model, x, y):
    """The probability that (x, y) has label 1."""
    total = model["bias"]
    for wx, wy, bias, out in model["units"]:
        total += out * math.tanh(wx * x + wy * y + bias)
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))


def score(model, points):
    """Accuracy and mean loss over points."""
    right, loss = 0, 0.0
    for (x, y), label in points:
        p = predict(model, x, y)
        right += (p > 0.5) == bool(label)
        loss -= math.log(max(1e-9, p if label else 1.0 - p))
    return right / len(points), loss / len(points)


def train_epoch(model, points, lr):
    """One pass of stochastic gradient descent, point by point."""
    units = model["units"]
    for (x, y), label in points:
        hidden = [math.tanh(unit[0] * x + unit[1] * y + unit[2]) for unit in units]
        total = model["bias"] + sum(unit[3] * h for unit, h in zip(units, hidden))
        error = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total)))) - label
        model["bias"] -= lr * error
        for unit, h in zip(units, hidden):
            back = lr * error * unit[3] * (1.0 - h * h)
            unit[0] -= back * x
            unit[1] -= back * y
            unit[2] -= back
            unit[3] -= lr * error * h


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=os.environ.get("GPULANE_CONFIG", "{}"), help="JSON text")
    parser.add_argument("--out", default=os.environ.get("GPULANE_OUT", "."), help="folder for model.json")
    arguments = parser.parse_args()
    config = json.loads(arguments.config)
    data, width, lr = config.get("data", "moons"), config.get("width", 12), config.get("lr", 0.1)
    seed = config.get("seed", 0)

    points = make_points(data, TRAINING_POINTS, seed=2 * seed)
    model = new_model(width, seed)
    print(f"training {width} units on {data}, learning rate {lr}")
    order = random.Random(seed)
    for epoch in range(1, EPOCHS + 1):
        order.shuffle(points)
        train_epoch(model, points, lr)
        if epoch % (EPOCHS // 5) == 0:
            accuracy, loss = score(model, points)
            print(f"epoch {epoch:3}/{EPOCHS}  loss {loss:.3f}  accuracy {accuracy:.1%}", flush=True)

    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.json").write_text(json.dumps({"config": config, "model": model}))


if __name__ == "__main__":
    main()
