"""What the makers need: programs from Debian, installed where we are root, and source packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import fetched
from .by_tools import PACKAGES, missing


def programs() -> list[str]:
    """Installs what is missing. Returns a line for each package whose makers are left out."""
    absent = [package for package, names in PACKAGES.items() if missing(names)]
    if absent and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"pictures: installing {' '.join(absent)}", file=sys.stderr)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": 600, "check": False}
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], env=environment, **quiet)  # type: ignore[call-overload]
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *absent]
        subprocess.run(install, env=environment, **quiet)  # type: ignore[call-overload]
    lines = []
    for package, names in PACKAGES.items():
        lacking = missing(names)
        if lacking:
            lines.append(f"without {', '.join(lacking)}: try `apt-get install {package}`")
    return lines


def packages(place: Path, only: list[str] | None) -> tuple[list[fetched.Source], list[str]]:
    """The source packages that are here, after fetching those wanted, and a line for each that could not be had."""
    lines = []
    here = []
    for source in fetched.sources():
        if only is not None and source.name not in only and not source.is_here(place):
            continue
        why = fetched.fetch(source, place)
        if why:
            lines.append(why)
        else:
            here.append(source)
    return here, lines
