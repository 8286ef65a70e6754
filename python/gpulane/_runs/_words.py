"""Numbers, places and machines as a person reads them; the same words as the program's own."""

from __future__ import annotations

from typing import Any, Dict, List

__all__ = ["clock", "lane_label", "machine_text", "number", "plural", "rate", "with_error"]


def number(value: float) -> str:
    """`12,345`."""
    return f"{value:,.0f}"


def plural(count: int, what: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def clock(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def rate(value: float) -> str:
    """Items a second."""
    return f"{number(value)}/s" if value >= 10 else f"{value:.1f}/s"


def with_error(message: str, error: str) -> str:
    """`exit code 1: ValueError: lr too high`; where the message has the error already, the message alone."""
    return message if error in message else f"{message}: {error}"


def lane_label(machine: Dict[str, Any], lane: int, uuids: List[str]) -> str:
    """`gpu 0`, `gpu 0.1` (second lane of GPU 0), `gpu 0,1` (a job on two), `cpu 3`, `lane 3`."""
    gpus = machine.get("gpus") or []
    if not gpus or machine.get("kind") == "none":
        return f"lane {lane}"
    places = [str(at) for at, gpu in enumerate(gpus) if gpu.get("uuid") in uuids]
    if len(places) > 1:
        return f"gpu {','.join(places)}"
    each = max(1, machine.get("lanes_per_gpu", 1))
    if lane >= len(gpus) * each:
        return f"cpu {lane - len(gpus) * each}"
    return f"gpu {lane // each}.{lane % each}" if each > 1 else f"gpu {lane}"


def machine_text(machine: Dict[str, Any]) -> str:
    """`8 simulated GPUs`, `2 GPUs (NVIDIA H200), 4 lanes each`, `16 CPU lanes`; nothing while it is not known."""
    if not machine:
        return ""
    gpus = machine.get("gpus") or []
    if machine.get("kind") == "none":
        return plural(machine.get("cpu_lanes", 0), "CPU lane")
    names = {str(gpu.get("name", "")) for gpu in gpus}
    if machine.get("kind") == "sim":
        base = plural(len(gpus), "simulated GPU")
    else:
        base = plural(len(gpus), "GPU") + (f" ({names.pop()})" if len(names) == 1 and names != {""} else "")
    if machine.get("packing"):
        return f"{base}, packed by memory"
    each = machine.get("lanes_per_gpu", 1)
    return f"{base}, {each} lanes each" if each > 1 else base
