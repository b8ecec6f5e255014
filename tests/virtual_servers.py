"""Scripted servers in virtual time: they turn a schedule into the facts a load process would have recorded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrobench.measure.facts import FRAME_DTYPE, LAG_EDGES, RunFacts, SessionFacts
from metrobench.measure.plan import Plan

Floats = npt.NDArray[np.float64]
GOLDEN = 0.618034


def ready_times(plan: Plan, u: float = 0.0, extra: int | None = None) -> Floats:
    """t_ready of every frame streamed, shape (sessions, frames); `extra` come while the last one is awaited."""
    phase = plan.budget * np.mod(GOLDEN * np.arange(plan.sessions) + u, 1.0)
    if extra is None:
        extra = int(np.ceil(2 * plan.wait / plan.unit)) + 1
    return phase[:, None] + plan.unit * np.arange(1, plan.cut_frames + plan.frames + extra + 1)[None, :]


def stop_time(plan: Plan, ready: Floats) -> float:
    """When streaming ends: once the outcome of the last measured frame is known."""
    return float(ready[:, plan.cut_frames + plan.frames - 1].max()) + plan.wait


def queue(ready: Floats, service: Floats | float) -> Floats:
    """Receipt times from one first-in-first-out server (Lindley's recursion, unrolled). Shapes (sessions, frames)."""
    arrivals = ready.ravel()
    order = np.argsort(arrivals, kind="stable")
    work = np.cumsum(np.broadcast_to(service, ready.shape).ravel()[order])
    start = np.maximum.accumulate(arrivals[order] - np.concatenate([[0.0], work[:-1]]))
    done = np.empty_like(arrivals)
    done[order] = start + work
    return done.reshape(ready.shape)


def noisy_service(shape: tuple[int, int], mean: float, seed: int, cv: float = 0.5, speed_sd: float = 0.02) -> Floats:
    """Lognormal service times of the given mean and coefficient of variation; the run as a whole is fast or slow by
    a factor of standard deviation `speed_sd`.

    More frames with the same seed prolong the same run.
    """
    rng = np.random.default_rng(seed)
    s2 = np.log(1.0 + cv**2)
    speed = 1.0 + speed_sd * rng.standard_normal()
    return rng.lognormal(np.log(mean * speed) - s2 / 2.0, np.sqrt(s2), shape[::-1]).T


def facts(
    plan: Plan,
    ready: Floats,
    done: Floats,
    *,
    sent: Floats | None = None,
    tokens: npt.NDArray[np.int32] | int = 4,
    flags: int = 1,
    stalls: list[tuple[float, float]] | None = None,
    refused: tuple[int, ...] = (),
    closed: dict[int, tuple[float, int]] | None = None,
    t_stop: float | None = None,
    lag: float = 0.0002,
) -> RunFacts:
    """Facts of a run. `closed`: session -> (time, close code). Answers after t_stop or after a close never came."""
    t_stop = stop_time(plan, ready) if t_stop is None else t_stop
    n, width = ready.shape
    ends = np.full(n, t_stop)
    for session, (moment, _) in (closed or {}).items():
        ends[session] = min(t_stop, moment)
    rows = np.zeros((n, width), dtype=FRAME_DTYPE)
    rows["session"], rows["frame"] = np.arange(n)[:, None], np.arange(width)[None, :]
    rows["t_ready"] = ready
    rows["t_sent"] = ready + lag if sent is None else sent
    rows["t_done"] = np.where(done <= ends[:, None], done, np.nan)
    rows["t_first"] = rows["t_done"]
    rows["tokens"], rows["flags"] = tokens, flags
    keep = ready <= t_stop
    keep[list(refused)] = False
    counts = np.zeros(len(LAG_EDGES) - 1, dtype=np.int64)
    counts[np.searchsorted(LAG_EDGES, lag, side="right") - 1] = 50 * n * width
    sessions = [
        SessionFacts(
            session=i,
            phase=float(ready[i, 0] - plan.unit),
            refused=i in refused,
            t_closed=closed[i][0] if closed and i in closed else None,
            close_code=closed[i][1] if closed and i in closed else None,
            filled_tokens=1024,
        )
        for i in range(n)
    ]
    return RunFacts(
        frames=rows[keep],
        sessions=sessions,
        budget=plan.budget,
        unit=plan.unit,
        first_ready=plan.unit,
        stalls=np.array(stalls or [], dtype=np.float64).reshape(-1, 2),
        lag_counts=counts,
        t_stop=t_stop,
    )


def queue_run(plan: Plan, capacity: float, *, seed: int | None = None, u: float = 0.3) -> RunFacts:
    """A run against one queue that serves `capacity` frames a unit: exactly, or with the noise of `seed`."""
    ready = ready_times(plan, u)
    mean = plan.unit / capacity
    service = mean if seed is None else noisy_service(ready.shape, mean, seed)
    return facts(plan, ready, queue(ready, service))
