"""A run as a card for notebooks. Self-contained: styles inline, no script, readable on light and dark ground."""

from __future__ import annotations

from html import escape
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._state import JobState, MapState, RunState
from ._words import clock, lane_label, machine_text, number, plural, rate, with_error

__all__ = ["card"]

GOOD, BAD, BUSY, WARN, NONE = "#2e9e5b", "#d64545", "#3b82c4", "#c98a1b", "#8a8f98"
COLOURS = {
    "succeeded": GOOD,
    "failed": BAD,
    "running": BUSY,
    "starting": BUSY,
    "waiting": WARN,
    "stopping": WARN,
    "interrupted": WARN,
    "stopped": WARN,
}
MONO = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px"
DIM = "opacity:.7"
MOST_LANES = 16
MOST_FAILURES = 5
LONGEST_NAME = 72
LONGEST_REASON = 400


def card(
    state: RunState,
    *,
    path: str,
    live: bool,
    now: float,
    maps: Dict[str, Dict[str, Any]],
    last_line_of: Callable[[JobState], str] = lambda job: "",
    stopping: bool = False,
) -> str:
    """The whole card. `maps`: what each map's feeder says just now, by stage, where one does. `last_line_of`: a
    job's last line on stderr."""
    phase = "stopping" if stopping and live else state.phase(live)
    until = now if live else (state.last or now)
    took = clock(until - state.started) if state.started is not None else ""
    parts = [_head(state.name, phase, took)]
    if state.lone_map is None:
        parts += _jobs(state, live)
    parts += [row for each in state.maps.values() for row in _map(each, maps.get(each.stage), state)]
    if phase == "stopping":
        parts.append(f'<div style="color:{WARN}">its jobs are asked to end; interrupt again to kill them at once</div>')
    if live and state.held:
        parts.append(f'<div style="color:{WARN}">waiting: {escape(state.held)}</div>')
    parts += _lanes(state, live, now)
    parts += _failures(state, last_line_of)
    parts.append(_foot(phase, path, state.from_cells))
    return (
        '<div style="font:13px/1.55 system-ui,sans-serif;border:1px solid rgba(128,128,128,.35);border-radius:8px;'
        f'padding:10px 14px;max-width:760px;box-sizing:border-box">{"".join(parts)}</div>'
    )


def _head(name: str, phase: str, took: str) -> str:
    colour = COLOURS.get(phase, NONE)
    return (
        '<div style="display:flex;gap:8px;align-items:baseline">'
        f'<b style="font-size:14px">{escape(_short(name))}</b>'
        f'<span style="background:{colour};color:#fff;border-radius:9px;padding:0 8px;font-size:11px;line-height:18px">'
        f'{escape(phase)}</span><span style="margin-left:auto;{DIM}">{took}</span></div>'
    )


def _jobs(state: RunState, live: bool) -> List[str]:
    counts = state.counts(live)
    total = len(state.jobs)
    shares = [
        (counts["succeeded"], GOOD),
        (counts["failed"], BAD),
        (counts["running"], BUSY),
        (counts["skipped"], NONE),
    ]
    told = [f"{number(count)} {word}" for word, count in counts.items() if count]
    line = " · ".join([f"{' · '.join(told)} of {plural(total, 'job')}", *filter(None, [machine_text(state.machine)])])
    return [_bar(shares, total), f'<div style="{DIM}">{escape(line)}</div>']


def _map(each: MapState, live: Optional[Dict[str, Any]], state: RunState) -> List[str]:
    """One map: how far, how fast, what limits it."""
    done, failed = (live["done"], live["failed"]) if live else (each.rows, each.failed)
    items = each.items if each.items is not None else (live or {}).get("items")
    words = []
    if not each.lone:
        words.append(each.stage)
    if items is None:
        words.append("listing items" if live else "not begun")
    else:
        words.append(f"{number(done + failed)} of {plural(items, 'item')}")
    if failed:
        words.append(f"{number(failed)} failed")
    if live and live.get("phase"):
        words.append(str(live["phase"]))
    elif live and live.get("rate", 0) > 0:
        words.append(rate(live["rate"]))
        if live.get("eta") is not None:
            words.append(f"about {clock(live['eta'])} left")
        if live.get("bottleneck"):
            words.append(f"{live['bottleneck']} limits ({live.get('pressed', 0):.0%} busy)")
    if each.lone:
        words += filter(None, [machine_text(state.machine)])
    rows = [_bar([(done, GOOD), (failed, BAD)], items or 0), f'<div style="{DIM}">{escape(" · ".join(words))}</div>']
    if each.stopped:
        rows.append(f'<div style="color:{BAD}">{escape(each.stopped)}</div>')
    return rows


def _bar(shares: Sequence[Tuple[int, str]], total: int) -> str:
    pieces = "".join(
        f'<span style="width:{100 * count / total:.3f}%;background:{colour}"></span>'
        for count, colour in shares
        if total and count
    )
    return (
        '<div style="display:flex;height:8px;border-radius:4px;overflow:hidden;background:rgba(128,128,128,.25);'
        f'margin:6px 0 2px">{pieces}</div>'
    )


def _lanes(state: RunState, live: bool, now: float) -> List[str]:
    """What runs where, in the order of the lanes."""
    running = sorted((job for job in state.jobs.values() if job.status == "running"), key=lambda job: job.lane)
    if not live or not running:
        return []
    rows = [_lane(state, job, now) for job in running[:MOST_LANES]]
    if len(running) > MOST_LANES:
        rows.append(f'<div style="{DIM}">and {plural(len(running) - MOST_LANES, "lane")} more</div>')
    return [f'<div style="margin-top:6px">{"".join(rows)}</div>']


def _lane(state: RunState, job: JobState, now: float) -> str:
    again = f" (try {job.attempts})" if job.attempts > 1 else ""
    quiet = f' <span style="color:{WARN}">no sign of life</span>' if job.quiet else ""
    return (
        f'<div style="display:flex;gap:10px;{MONO}">'
        f'<span style="min-width:64px;{DIM}">{escape(lane_label(state.machine, job.lane, job.gpus))}</span>'
        f"<span>{escape(_short(job.name))}{again}{quiet}</span>"
        f'<span style="margin-left:auto;{DIM}">{clock(now - job.since)}</span></div>'
    )


def _failures(state: RunState, last_line_of: Callable[[JobState], str]) -> List[str]:
    """The newest failures, and how to see more of them. Why a map was stopped is told with the map, not with each of
    its workers."""
    told_already = [each.stage for each in state.maps.values() if each.stopped]
    jobs = [
        job
        for job in state.jobs.values()
        if job.status == "failed" and not (job.reason == "stopped" and job.stage in told_already)
    ]
    newest = [(job, last_line_of(job)) for job in jobs[-MOST_FAILURES:]]
    told = [(job.name, with_error(job.message or "failed", line if job.says_why else "")) for job, line in newest]
    items = [failure for each in state.maps.values() for failure in each.failures]
    told += items[-max(0, MOST_FAILURES - len(told)) :] if len(told) < MOST_FAILURES else []
    if not told:
        return []
    rows = [
        f'<div style="{MONO}"><span style="color:{BAD}">✗</span> {escape(_short(name))} '
        f'<span style="{DIM}">{escape(_short(why, LONGEST_REASON))}</span></div>'
        for name, why in told
    ]
    count = len(jobs) + sum(each.failed for each in state.maps.values())
    if count > len(told):
        rows.append(f'<div style="{DIM}">and {number(count - len(told))} more: <code>.failed()</code></div>')
    if newest:
        job, line = newest[-1]
        call = f".logs({job.name!r}{', stderr=True' if line else ''})"
        rows.append(f'<div style="{DIM}">all it said: <code>{escape(call)}</code></div>')
    return [f'<div style="margin-top:6px">{"".join(rows)}</div>']


def _foot(phase: str, path: str, cells: Sequence[str]) -> str:
    hint = {
        "interrupted": "to go on",
        "stopped": "to go on",
        "failed": "to try again what failed",
    }.get(phase)
    call = f"gpulane.Run({path!r}).resume({'failed=True' if phase == 'failed' else ''})"
    text = f"{hint}: <code>{escape(call)}</code>" if hint else escape(path)
    if phase == "failed" and cells:
        text += f"; it goes on with {escape(', '.join(cells))} as it was: if you mend that, begin a new run"
    return f'<div style="margin-top:6px;{DIM};font-size:12px">{text}</div>'


def _short(text: str, longest: int = LONGEST_NAME) -> str:
    """In the middle, where names differ least."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]}…{text[-(longest - longest // 2 - 1) :]}"
