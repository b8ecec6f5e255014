"""The first guess of a capacity search, never itself a bound: a closed loop on a throwaway worker, or short real-time
runs of doubling size against somebody's endpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from metrobench.load.process import LoadProcess
from metrobench.measure.facts import RunFacts
from metrobench.measure.plan import Plan
from metrobench.probe import Setting, Watch, load_spec
from metrobench.servers import Server

FIRST_SESSIONS = 16
SECONDS = (1.5, 3.0)
"""Length of the two closed loops."""


RAMP_START = 4
"""Sessions of the first short run against an endpoint."""
RAMP_SECONDS = 6.0
"""Length of a short run, after its first frames."""
KEEPS_UP = 0.9
"""Share of the offered frames that a server answers while it keeps up."""


def ramp_sessions(setting: Setting, server: Server, most: int, seed: int, folder: Path, watch: Watch) -> int | None:
    """About how many sessions an endpoint sustains, at most `most`; None when interrupted.

    The number of sessions doubles until the server falls behind; the rate it then answers at is its capacity.
    """
    sessions = min(RAMP_START, most)
    with server.fresh(most, folder / "server.log") as running:
        while True:
            plan = setting.short_plan(math.ceil(RAMP_SECONDS / setting.stream.unit), sessions)
            facts = _short_run(setting, server, running.url, plan, seed, folder / f"ramp-{sessions}", watch)
            if facts is None:
                return None
            kept = _answered_share(facts, plan)
            if kept < KEEPS_UP or sessions == most:
                return max(1, round(sessions * min(1.0, kept)))
            sessions = min(most, 2 * sessions)
            server.settle()


def _short_run(
    setting: Setting, server: Server, url: str, plan: Plan, seed: int, folder: Path, watch: Watch
) -> RunFacts | None:
    paced = load_spec(setting, server, url, plan, seed, 0, folder)
    spec = replace(paced, max_frames=plan.frames, stop_after_misses=None)
    with LoadProcess(spec) as load:
        load.start()
        while not watch.interrupted():
            event = load.next_event(0.25)
            if event is None:
                continue
            watch.show(event, None)
            if event.kind in ("failed", "died"):
                raise event.error()
            if event.kind in ("judge", "stopped"):
                load.stop()
                return load.facts()
    return None


def _answered_share(facts: RunFacts, plan: Plan) -> float:
    """Answers received in the second half of the run, over the frames that became ready in it."""
    end = plan.frames * plan.unit
    begin = end / 2
    done, ready = facts.frames["t_done"], facts.frames["t_ready"]
    refused = sum(session.refused for session in facts.sessions)
    due = int(((ready >= begin) & (ready < end)).sum()) + round(refused * (end - begin) / plan.unit)
    return int(((done >= begin) & (done < end)).sum()) / due if due else 0.0


def guess_sessions(setting: Setting, server: Server, most: int, seed: int, folder: Path, watch: Watch) -> int | None:
    """About how many sessions a fresh worker sustains, at most `most`; None where a closed loop tells nothing.

    With n sessions always in flight the worker is in the state that N = B X(n) paced sessions bring it to (Little's
    law; X: frames a second). At the edge the slowest frames take B, so two sizes give the n at which they would.
    """
    first = min(FIRST_SESSIONS, most)
    with server.fresh(most, folder / "server.log") as running:
        small = _cycle(setting, server, running.url, first, SECONDS[0], seed, folder / "small", watch)
        if small is None or watch.interrupted():
            return None
        second = max(2, min(most, max(2 * first, round(0.5 * first * setting.budget / small.tail))))
        large = _cycle(setting, server, running.url, second, SECONDS[1], seed, folder / "large", watch)
    if large is None:
        return None
    return max(1, min(most, edge(small, large, setting.budget)))


@dataclass(frozen=True, slots=True)
class Cycle:
    """A closed loop."""

    sessions: int
    """n: sessions always in flight."""
    mean: float
    """Mean seconds from a frame's last chunk to its complete answer."""
    tail: float
    """Its 99 % quantile."""


def edge(small: Cycle, large: Cycle, budget: float) -> int:
    """Sessions at which the tail of paced frames takes `budget` seconds, with mean and tail linear in n."""
    apart = large.sessions - small.sessions
    if apart <= 0 or large.tail <= small.tail:
        return round(large.sessions * budget / large.mean)
    inside = small.sessions + apart * (budget - small.tail) / (large.tail - small.tail)
    mean = small.mean + (large.mean - small.mean) / apart * (inside - small.sessions)
    if inside < 1.0 or mean <= 0.0:
        return round(small.sessions * budget / max(small.tail, budget))
    return round(inside * budget / mean)


def _cycle(
    setting: Setting, server: Server, url: str, sessions: int, length: float, seed: int, folder: Path, watch: Watch
) -> Cycle | None:
    """A closed loop over `sessions` sessions; None when no frame was served."""
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
                if event.cycle_mean is None or event.cycle_p99 is None:
                    return None
                return Cycle(sessions, event.cycle_mean, event.cycle_p99)
            if event.kind in ("failed", "died"):
                raise event.error()
            if event.kind == "stopped":
                break
    return None
