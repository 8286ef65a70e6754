"""Who could put another folder in the place of one of ours: the rule that the program has for run directories, for
folders whose files are executed in our name. Looks only.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Optional, Set, Tuple

__all__ = ["first_open_place", "us"]

SYSTEMS_OWN = {"/tmp", "/var/tmp", "/dev/shm"}
"""For all users, made by root on every system."""

IN_A_CONTAINER = ("/.dockerenv", "/run/.containerenv")


def us() -> Set[int]:
    """Ids that are us, or that could do whatever they like anyway."""
    known = {os.geteuid(), 0}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        known.add(int(os.environ["SUDO_UID"]))
    return known


def first_open_place(folder: Path, ours: int) -> Optional[Tuple[Path, str]]:
    """The first folder above this one where somebody else could exchange what is in it, and why.

    `ours`: whose a file is that was just made in the folder. A file server may give it to another id, which then is us
    there, and nowhere else.
    """
    places = [*reversed(folder.resolve().parents)]
    device, unmapped, known = os.stat(folder).st_dev, _unmapped(), us()
    for place in places:
        why = _risk(place, unmapped, known | ({ours} if os.stat(place).st_dev == device else set()))
        if why is not None:
            return None if _is_vouched_for(places) else (place, why)
    return None


def _risk(place: Path, unmapped: Optional[int], trusted: Set[int]) -> Optional[str]:
    found = os.stat(place)
    shared, sticky = found.st_mode & 0o022, found.st_mode & stat.S_ISVTX
    if found.st_uid == unmapped:
        if shared and not (sticky and str(place) in SYSTEMS_OWN):
            return "belongs to a user whom this user namespace cannot name"
    elif found.st_uid not in trusted:
        return "belongs to another user"
    if found.st_mode & stat.S_IWOTH and not sticky:
        return "can be written to by every user"
    return None


def _unmapped() -> Optional[int]:
    """The id that stands for all ids which this user namespace cannot name; none where ids are as they are."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        if any(line.split() == ["0", "0", "4294967295"] for line in lines):
            return None
        return int(Path("/proc/sys/fs/overflowuid").read_text())
    except (OSError, ValueError):
        return None


def _is_vouched_for(places: list[Path]) -> bool:
    """Whether a person says so, or whoever made the container that we are root in."""
    named = os.environ.get("GPULANE_TRUST_DIR", "").split(":")
    vouched = [Path(name) for name in named if name and Path(name).is_dir()]
    if any(place.samefile(name) for place in places for name in vouched):
        return True
    contained = any(os.path.lexists(mark) for mark in IN_A_CONTAINER) or "KUBERNETES_SERVICE_HOST" in os.environ
    return os.geteuid() == 0 and contained and any(os.path.ismount(place) for place in places[1:])
