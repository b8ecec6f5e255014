"""The first guess of a capacity search: a closed loop on a throwaway worker. Never itself a bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from metrobench.load.process import LoadProcess
from metrobench.probe import Setting, Watch, load_spec
from metrobench.servers import Server

FIRST_SESSIONS = 16
SECONDS = (1.5, 3.0)
"""Length of the two closed loops."""


def guess_sessions(setting: Setting, server: Server, most: int, seed: int, folder: Path, watch: Watch) -> int | None:
    """About how many sessions the server sustains, at most `most`; None where a closed loop tells nothing.

    The time of one cycle over n sessions is close to a + b n, so two sizes give the n whose cycle lasts one frame.
    """
    first = min(FIRST_SESSIONS, most)
    with server.fresh(most, folder / "server.log") as running:
        small = _cycle(setting, server, running.url, first, SECONDS[0], seed, folder / "small", watch)
        if small is None or watch.interrupted():
            return None
        lower = setting.budget / small * first
        second = round(min(most, max(2 * first, 0.5 * lower)))
        large = _cycle(setting, server, running.url, second, SECONDS[1], seed, folder / "large", watch)
    if large is None or second <= first:
        return max(1, min(most, round(lower)))
    per_session = (large - small) / (second - first)
    start = small - per_session * first
    if per_session <= 0:
        return max(1, min(most, round(setting.budget / large * second)))
    return max(1, min(most, round((setting.budget - start) / per_session)))


def _cycle(
    setting: Setting, server: Server, url: str, sessions: int, length: float, seed: int, folder: Path, watch: Watch
) -> float | None:
    """Seconds in which each of `sessions` sessions is served one frame, or None when none was."""
    plan = setting.plan(sessions)
    fill = setting.policy.full_tokens if server.can_fill else 0
    paced = load_spec(setting, server, url, plan, seed, fill, folder)
    spec = replace(paced, mode="saturate", saturate_seconds=length, stop_after_misses=None)
    with LoadProcess(spec) as load:
        load.start()
        while not watch.interrupted():
            event = load.next_event(0.25)
            if event is None:
                continue
            watch.show(event, None)
            if event.kind == "saturated":
                return event.seconds * sessions / event.frames if event.frames else None
            if event.kind in ("failed", "died"):
                raise event.error()
            if event.kind == "stopped":
                break
    return None
