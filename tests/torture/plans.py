"""Random plans: stages, matrices, gangs, retries and the parts jobs play, and the TOML that says so."""

from __future__ import annotations

import json
import random
from typing import Any

from . import maps
from .maps import PYTHON
from .story import JobStory, StageStory, Story

ACTOR = [PYTHON, "-S", "-E", "actor.py"]


def make(dice: random.Random) -> Story:
    """A random plan; one of its stages may be a map."""
    gpus, lanes = dice.choice([("none", 3), ("none", 2), ("sim:2x24GiB", None), ("sim:4x24GiB", None)])
    story = Story(gpus=gpus, lanes=lanes)
    stages = dice.choice([1, 1, 2, 2, 3])
    mapped = dice.randrange(1, stages + 1) if dice.random() < 0.15 else None
    for number in range(stages):
        story.stages.append(make_stage(dice, story, f"s{number}"))
        if number + 1 == mapped:
            after = [dice.choice(story.stages).name] if dice.random() < 0.6 else []
            story.stages.append(maps.make_stage(dice, "m", after))
    return story


def make_stage(dice: random.Random, story: Story, name: str) -> StageStory:
    """A random stage; one that follows others may depend on them."""
    keys: dict[str, Any] = {"grace": "1s", "retries": dice.choice([0, 0, 1, 1, 2])}
    width = 1 if story.gpus == "none" else 2
    keys["gpus"] = dice.choice([1, 1, 1, width, 0])
    if dice.random() < 0.2:
        keys["parallel"] = dice.choice([1, 2])
    if dice.random() < 0.2:
        keys["start_gate"] = dice.choice(["off", 1])
    if dice.random() < 0.2:
        keys["retry_delay"] = dice.choice(["50ms", "300ms"])
    entry = dice.random() < 0.25
    if entry:
        keys["entry"] = "actor.py:main"
        keys["python"] = PYTHON
        keys["standbys"] = dice.choice([1, "auto", "off", 2])
    else:
        keys["command"] = ACTOR
    stage = StageStory(name, keys, [])
    if story.stages and dice.random() < 0.7:
        source = dice.choice(story.stages)
        if dice.random() < 0.6 and source.map is None:
            stage.foreach = source.name
        if stage.foreach is None or dice.random() < 0.3:
            stage.after = [source.name]
    points(dice, story, stage)
    for job in stage.jobs:
        job.part = part(dice, story, stage, job)
    limit(dice, stage)
    return stage


def limit(dice: random.Random, stage: StageStory) -> None:
    """The limits that the parts of a stage's jobs need, and an end to parts that do not go together."""
    keys, parts = stage.keys, [job.part for job in stage.jobs]
    hows = {part.get("how") for part in parts}
    if dice.random() < 0.12:
        keys["max_failures"] = dice.choice([1, 2])
    still = hows & {"freeze", "outside"} or any("quiet" in part for part in parts)
    if "late" in hows or still:
        for part in parts:
            # To see that a job lingers takes about as long.
            if part.get("end") == "result":
                part["end"] = "done"
    if "late" in hows:
        keys["timeout"] = "4s"
        for part in parts:
            part.pop("quiet", None)
            if part.get("how") in ("freeze", "outside"):
                part["how"] = "exit"
    elif still:
        # What froze gets another try anyway.
        keys.update(hang={"after": "1s"}, retries=max(1, keys["retries"]))
        if "outside" in hows:
            keys["hang"]["outside"] = "5s"
            for part in parts:
                part.pop("quiet", None)
    elif any(part.get("end") == "result" for part in parts):
        keys.update(result=["result.txt"], hang="8s")


def points(dice: random.Random, story: Story, stage: StageStory) -> None:
    """The stage's jobs, and the keys that make them."""
    if stage.foreach:
        source = next(each for each in story.stages if each.name == stage.foreach)
        stage.jobs = [
            JobStory(f"{stage.name}/{job.name.split('/')[1]}", stage.name, {}, source=job.name) for job in source.jobs
        ]
        return
    seeds = list(range(1, dice.choice([2, 3, 4, 6])))
    if dice.random() < 0.3:
        matrix: dict[str, list[Any]] = {"seed": seeds[:2], "kind": ["a", "b"][: dice.choice([1, 2])]}
        names = [f"seed={seed},kind={kind}" for seed in matrix["seed"] for kind in matrix["kind"]]
    else:
        matrix = {"seed": seeds}
        names = [f"seed={seed}" for seed in seeds]
    stage.keys["matrix"] = matrix
    if dice.random() < 0.2:
        stage.keys["job"] = [{"name": "big", "config": {key: values[0] for key, values in matrix.items()}}]
        names.append("big")
    stage.jobs = [JobStory(f"{stage.name}/{name}", stage.name, {}) for name in names]


def part(dice: random.Random, story: Story, stage: StageStory, job: JobStory) -> dict[str, Any]:
    """What one job does."""
    part: dict[str, Any] = {"seconds": round(dice.choice([0, 0.05, 0.2, 0.5, 1.0]) * dice.random(), 3)}
    part["files"] = [dice.choice([0, 10, 1000, 5000, 70_000]) for _ in range(dice.choice([1, 2, 4]))]
    if job.source:
        part["input"] = True
    if stage.keys["gpus"] and story.gpus != "none":
        part["alone"] = True
    if dice.random() < 0.15:
        part["deep"] = dice.choice([3, 40])
    if dice.random() < 0.2:
        part["prints"] = [dice.choice([10, 1001, 66_000, 300_001]) for _ in range(2)]
    if dice.random() < 0.15:
        part["deaf"] = True
    if dice.random() < 0.35:
        part["leaves"] = dice.sample(["child", "deaf", "daemon", "bare", "twice"], dice.choice([1, 1, 2]))
    if dice.random() < 0.3:
        part["failures"] = dice.choice([1, 1, 2, 9])
        part["how"] = dice.choices(["exit", "crash", "abort", "late", "freeze", "outside"], [4, 2, 2, 1, 1, 1])[0]
        if part["how"] in ("freeze", "outside"):
            # A child that sleeps by the clock keeps the job from being closed.
            part.pop("leaves", None)
    elif dice.random() < 0.15:
        part["end"] = dice.choices(["done", "handles", "result"], [3, 2, 1])[0]
        if part["end"] == "result":
            # A child that sleeps by the clock is life, and so is what it may print.
            part.pop("leaves", None)
    elif dice.random() < 0.04:
        part["quiet"] = 6
    return part


def inline(value: Any) -> str:
    """A value as TOML writes it in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def toml(story: Story) -> str:
    """The plan as a person would write it."""
    lines = ['name = "torture"']
    for stage in story.stages:
        lines += ["", "[[stage]]", f'name = "{stage.name}"']
        keys = {key: value for key, value in stage.keys.items() if key not in ("matrix", "job")}
        if stage.after:
            keys["after"] = stage.after
        if stage.foreach:
            keys["foreach"] = stage.foreach
        if stage.map:
            keys["map"] = stage.map.keys
        lines += [f"{key} = {inline(value)}" for key, value in keys.items()]
        if "matrix" in stage.keys:
            lines.append("[stage.matrix]")
            lines += [f"{key} = {json.dumps(values)}" for key, values in stage.keys["matrix"].items()]
        for job in stage.keys.get("job", []):
            config = ", ".join(f"{key} = {json.dumps(value)}" for key, value in job["config"].items())
            lines += ["[[stage.job]]", f'name = "{job["name"]}"', f"config = {{ {config} }}"]
    return "\n".join(lines) + "\n"
