"""Streams that are ours alone. torch hands out the same few in turn; two models on one would wait for each other."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any
from typing import Counter as Counts

__all__ = ["give_back", "take"]

POOL = 32
"""How many streams torch has per device and priority. After so many tries there is no unused one."""

_users: Counts[int] = Counter()
_lock = threading.Lock()


def take(torch: Any, device: Any) -> Any:
    """A stream nobody here uses yet; when all are taken, one that is shared: right, but no longer at the same time."""
    with _lock:
        stream = torch.cuda.Stream(device)
        for _ in range(POOL):
            if not _users[stream.cuda_stream]:
                break
            stream = torch.cuda.Stream(device)
        _users[stream.cuda_stream] += 1
        return stream


def give_back(stream: Any) -> None:
    """For others to take."""
    with _lock:
        _users[stream.cuda_stream] -= 1
