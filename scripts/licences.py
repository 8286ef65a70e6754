#!/usr/bin/env python3
"""Checks what we build with, offline and in a second: licences, sources, unwanted and doubled crates.

The rules are in deny.toml, in cargo-deny's own form; this reads the part of it that needs no network. Where cargo-deny
is installed it is run as well, which adds the advisory database. Prints every breach; exits with 1 if there is one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    packages = resolved(rules["graph"]["targets"][0])
    breaches = [*licences(packages, rules), *sources(packages, rules), *bans(packages, rules), *unexplained()]
    for breach in breaches:
        print(breach)
    if breaches:
        return 1
    print(f"{sum(1 for each in packages if each['source'])} crates from outside: licences, sources and bans hold")
    return cargo_deny()


def resolved(target: str) -> list[dict]:
    """Every package that a build for this target or its tests would use."""
    argv = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    # Offline first: after one build everything is here. A fresh clone has to fetch once.
    for extra in (["--offline"], []):
        done = subprocess.run([*argv, *extra], cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            data = json.loads(done.stdout)
            used = {node["id"] for node in data["resolve"]["nodes"]}
            return [package for package in data["packages"] if package["id"] in used]
    sys.exit(f"cargo metadata: {done.stderr.strip()}")


def name_of(package: dict) -> str:
    return f"{package['name']} {package['version']}"


# Licences -----------------------------------------------------------------------------------------------------


def licences(packages: list[dict], rules: dict) -> Iterator[str]:
    allowed = set(rules["licenses"]["allow"])
    for package in packages:
        if not package["license"]:
            yield f"{name_of(package)}: names no licence"
        elif not satisfied(package["license"], allowed):
            yield f"{name_of(package)}: licence {package['license']} is not among those deny.toml allows"


def satisfied(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be met with allowed licences alone. `/` is the old way to write OR."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    position = 0

    def peek() -> str:
        return words[position] if position < len(words) else ""

    def take() -> str:
        nonlocal position
        position += 1
        return words[position - 1]

    def any_of() -> bool:
        met = all_of()
        while peek().upper() == "OR":
            take()
            met = all_of() or met
        return met

    def all_of() -> bool:
        met = single()
        while peek().upper() == "AND":
            take()
            met = single() and met
        return met

    def single() -> bool:
        if not peek() or peek() == ")":
            raise ValueError(f"not a licence expression: {expression}")
        if peek() == "(":
            take()
            met = any_of()
            if not peek():
                raise ValueError(f"not a licence expression: {expression}")
            take()
            return met
        licence = take()
        if peek().upper() == "WITH":
            take()
            licence = f"{licence} WITH {take()}"
        return licence in allowed

    met = any_of()
    if position != len(words):
        raise ValueError(f"not a licence expression: {expression}")
    return met


# Sources and bans ---------------------------------------------------------------------------------------------


def sources(packages: list[dict], rules: dict) -> Iterator[str]:
    allowed = {f"registry+{address}" for address in rules["sources"]["allow-registry"]}
    for package in packages:
        if package["source"] is not None and package["source"] not in allowed:
            yield f"{name_of(package)}: comes from {package['source']}, which deny.toml does not allow"
        if package["source"] is None and not Path(package["manifest_path"]).is_relative_to(ROOT):
            yield f"{name_of(package)}: is a path outside this repository"


def bans(packages: list[dict], rules: dict) -> Iterator[str]:
    for rule in rules["bans"]["deny"]:
        for package in packages:
            if matches(package, rule["crate"]) and not only_within(package, rule.get("wrappers", []), packages):
                yield f"{name_of(package)}: banned, {rule['reason']}"
    skipped = rules["bans"]["skip"]
    for rule in skipped:
        if not any(matches(package, rule["crate"]) for package in packages):
            yield f"deny.toml: skips {rule['crate']}, which is no longer here; remove the line"
    versions: dict[str, list[str]] = {}
    for package in packages:
        if not any(matches(package, rule["crate"]) for rule in skipped):
            versions.setdefault(package["name"], []).append(package["version"])
    for name, found in sorted(versions.items()):
        if len(found) > 1:
            yield f"{name}: {len(found)} versions ({', '.join(sorted(found))}); settle on one, or say why in deny.toml"


def only_within(package: dict, wrappers: list[str], packages: list[dict]) -> bool:
    """Whether all that want it are crates from outside for which the rule makes an exception."""
    wanting = {
        each["name"]
        for each in packages
        for dependency in each.get("dependencies", [])
        if dependency["name"] == package["name"] and dependency["kind"] != "dev"
    }
    return bool(wrappers) and wanting <= set(wrappers)


def matches(package: dict, rule: str) -> bool:
    """`name`, `name@<1.2.3`, or `name@1.2`, which means any 1.2.x."""
    name, _, requirement = rule.partition("@")
    if package["name"] != name:
        return False
    if not requirement:
        return True
    have = release(package["version"])
    operator, wanted = re.match(r"(<=|>=|<|>|=)?\s*(.*)", requirement).groups()
    want = release(wanted)
    if operator is None:
        return have[: len(wanted.split("."))] == want[: len(wanted.split("."))]
    return {"<": have < want, "<=": have <= want, ">": have > want, ">=": have >= want, "=": have == want}[operator]


def release(version: str) -> tuple[int, int, int]:
    numbers = [int(number) for number in re.split(r"[-+]", version)[0].split(".")]
    return tuple((numbers + [0, 0, 0])[:3])


# Ours ---------------------------------------------------------------------------------------------------------


def unexplained() -> Iterator[str]:
    """Every dependency of the workspace is explained in docs/dependencies.md, and nothing else is."""
    wanted = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    direct = {name for name in wanted if not name.startswith("gpulane-")}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    for name in sorted(direct - explained):
        yield f"docs/dependencies.md: no line for `{name}`; say what was weighed against it"
    for name in sorted(explained - direct):
        yield f"docs/dependencies.md: `{name}` is no longer a dependency"


def cargo_deny() -> int:
    if not shutil.which("cargo-deny"):
        print("cargo-deny is not installed: the advisory database was not asked (deny.toml lists what we know)")
        return 0
    return subprocess.run(["cargo", "deny", "--log-level", "warn", "check"], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
