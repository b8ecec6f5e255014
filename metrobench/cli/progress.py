"""What the load process tells, in a few words for the progress line."""

from __future__ import annotations

from metrobench.load.spec import LoadEvent
from metrobench.probe import Kv
from metrobench.units import percent, seconds


def status(event: LoadEvent, kv: Kv | None, length: float | None) -> str:
    """One event of the load process in a few words."""
    if event.kind == "connected":
        return f"{event.connected} connected" + (f", {event.refused} refused" if event.refused else "")
    if event.kind in ("filling", "filled"):
        return f"{event.filled} sessions ready" + (f", {event.refused} refused" if event.refused else "")
    if event.kind in ("progress", "judge"):
        left = "" if length is None or event.t > length - 1 else f", {seconds(round(length - event.t))} left"
        words = [f"{seconds(max(1, round(event.t)))}{left}"]
        if event.due:
            words.append(f"missed {percent(event.missed / event.due)}")
        if event.p50 is not None and event.p99 is not None:
            words.append(f"p50 {seconds(event.p50)}, p99 {seconds(event.p99)}")
        if kv is not None:
            words += _pool(kv)
        if event.closed or event.refused:
            words.append(f"{event.closed} closed, {event.refused} refused")
        return " · ".join(words)
    if event.kind == "aftermath":
        return f"after the collapse: {event.message}, {event.answered} of {event.connected} sessions answered"
    return event.kind


def _pool(kv: Kv) -> list[str]:
    words = [f"kv {percent(kv.used, 0)}"]
    if kv.ahead is None:
        return words
    left = kv.ahead.left
    return [
        *words,
        "never full at this load" if left is None else f"full in {seconds(round(left))}" if left >= 1 else "full now",
    ]


def alarm(event: LoadEvent) -> str:
    """Sessions that wait for long, or the collapse that it has become."""
    waits = f"{event.silent} sessions without an answer for up to {seconds(event.seconds)}"
    if not event.silent:
        return f"{seconds(event.t)}: {event.message}"
    what = waits if event.message == "warning" else f"{event.message}, {waits}"
    return f"{seconds(event.t)}: {what}"
