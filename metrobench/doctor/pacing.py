"""How many sessions this machine can offer on time: the real load process against a server that answers at once."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np
from msgspec import Struct, to_builtins

from metrobench.corpus.manifest import default_clips
from metrobench.doctor.check import PACING, Check, Status, first_of
from metrobench.doctor.echo import EchoThread
from metrobench.errors import MetrobenchError
from metrobench.load.files import allow_files
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.measure.client import histogram_quantile
from metrobench.measure.facts import RunFacts
from metrobench.measure.frames import healthy_lag
from metrobench.profiles import Timing
from metrobench.units import CHUNK, seconds
from metrobench.worker.cores import Layout

STEPS = (50, 200, 500, 1000)
"""Numbers of sessions, as far as the largest allowed; beyond, each is twice the last."""
SECONDS = 3.0
"""Streamed at each."""
STEP_LIMIT = 20.0
"""Seconds of one step after which the machine is too slow for it."""
TRUSTED = healthy_lag(0.0)
"""Seconds of send lag (p99) up to which a run is valid at any budget."""
FINE = 0.001
"""Seconds of send lag that no latency of a speech model shows."""
GOOD = 200
"""Sessions below which a machine is a weak client: a plain asyncio client paces as many."""
CROWD = 400
"""Sessions above which the server rests between its readings, or it would take all its core to wake up."""
NAP = 250e-6
CLIPS = 3
"""Audio files: what is said makes no difference."""


class Step(Struct, frozen=True):
    """One number of sessions, streamed."""

    sessions: int
    lag_p50: float | None = None
    """Median send lag of all chunks, seconds; None: nothing was sent."""
    lag_p99: float | None = None
    answer_p50: float | None = None
    """Median seconds from the scheduled end of a frame to its answer: what an instant server reads as."""
    answer_p99: float | None = None
    cpu: float | None = None
    """Cores that the load process took."""
    trouble: str = ""
    """Why nothing was measured."""


def steps_up_to(most: int) -> list[int]:
    """The numbers of sessions to try, ascending, `most` the last."""
    steps = [step for step in STEPS if step < most]
    while steps and steps[-1] >= STEPS[-1] and 2 * steps[-1] < most:
        steps.append(2 * steps[-1])
    return [*steps, most]


def check_pacing(plan: Layout, timing: Timing, most: int, stop: Event, show: Callable[[str], None]) -> list[Check]:
    """Streamed and judged. A step that fails is made once more: one bad moment is no property of a machine.

    `timing`: of the model to be measured (short frames give the client more to read); `most`: sessions at most.
    """
    made: list[Step] = []
    for sessions in steps_up_to(most):
        for attempt in range(2):
            if stop.is_set():
                return [judge_pacing(made, most, timing.unit, interrupted=True)]
            show(f"pacing · {sessions} sessions" + (" once more" if attempt else ""))
            made.append(stream(sessions, plan, timing, stop))
            if keeps(made[-1], TRUSTED):
                break
        else:
            break
    return [judge_pacing(made, most, timing.unit, interrupted=stop.is_set())]


def keeps(step: Step, limit: float) -> bool:
    """The send lag stayed within `limit` seconds."""
    return step.lag_p99 is not None and step.lag_p99 <= limit


def most_within(steps: list[Step], limit: float) -> int:
    """Most sessions up to which every number was kept within `limit`, the better of two tries at each; 0: none."""
    best = 0
    for sessions in sorted({step.sessions for step in steps}):
        if not any(keeps(step, limit) for step in steps if step.sessions == sessions):
            break
        best = sessions
    return best


def judge_pacing(steps: list[Step], most: int, unit: float, *, interrupted: bool = False) -> Check:
    """`steps` in the order they were made; `most`: the largest number that was to be tried; `unit`: seconds of audio in
    a frame."""
    trusted, fine = most_within(steps, TRUSTED), most_within(steps, FINE)
    figures = {"trusted": trusted, "trusted_1ms": fine, "steps": to_builtins(steps)}
    if not steps:
        return Check(PACING, Status.SKIPPED, "stopped before the first step")
    last = steps[-1]
    words = f"up to {trusted} sessions" if trusted else f"not even {steps[0].sessions} sessions"
    words += f" of {seconds(unit)} frames within {seconds(TRUSTED)} (p99 of the send lag)"
    if trusted:
        words += f", {fine} within {seconds(FINE)}"
    best = next((step for step in reversed(steps) if step.sessions == trusted and keeps(step, TRUSTED)), None)
    if best is not None and best.lag_p99 is not None:
        words += f"; at {trusted}: lag {seconds(best.lag_p99)}"
        if best.answer_p99 is not None:
            words += f", an instant answer reads {seconds(best.answer_p99)}"
    if last.trouble:
        words += f"; at {last.sessions}: {last.trouble}"
    elif not keeps(last, TRUSTED) and last.lag_p99 is not None:
        words += f"; at {last.sessions}: lag {seconds(last.lag_p99)}"
    if interrupted:
        words += "; stopped early"
    rules = [
        (not trusted and not interrupted, Status.FAIL, "stream from another machine, or end other programs first"),
        (
            trusted < min(GOOD, most),
            Status.WARN,
            "runs with more sessions will be void: stream from another machine",
        ),
    ]
    return first_of(PACING, rules, words, **figures)


def stream(sessions: int, plan: Layout, timing: Timing, stop: Event) -> Step:
    """One step on the cores that a measurement would use: the server on the engine's, the load process on its own."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="metrobench-doctor-")))
        try:
            allow_files(sessions)
            nap = NAP if sessions > CROWD else 0.0
            echo = stack.enter_context(EchoThread(round(timing.unit / CHUNK), min(plan.engine), nap))
            events, facts = _run(_spec(sessions, echo.url, plan, timing, folder), stop)
        except (MetrobenchError, OSError) as error:
            return Step(sessions, trouble=str(error))
    return _figures(sessions, events, facts)


def _spec(sessions: int, url: str, plan: Layout, timing: Timing, folder: Path) -> LoadSpec:
    unit = timing.unit
    frames = math.ceil(2 * SECONDS / unit)  # more than will be streamed: the clock ends a step, not the last frame
    return LoadSpec(
        protocol="realtime",
        url=url,
        sessions=sessions,
        budget=unit,
        unit=unit,
        first_ready=unit,
        seed=1,
        clips=default_clips()[:CLIPS],
        cut_frames=0,
        frames=frames,
        max_frames=frames,
        spool=folder / "spool",
        cores=plan.load,
        sample_rate=timing.sample_rate,
    )


def _run(spec: LoadSpec, stop: Event) -> tuple[list[LoadEvent], RunFacts]:
    """Events and facts of one run. Raises MetrobenchError where nothing could be measured."""
    events: list[LoadEvent] = []
    deadline = time.monotonic() + STEP_LIMIT
    with LoadProcess(spec) as load:
        load.start()
        while not stop.is_set() and time.monotonic() < deadline:
            event = load.next_event(0.25)
            if event is None:
                continue
            events.append(event)
            if event.kind in ("failed", "died"):
                raise event.error()
            if event.kind == "progress" and event.t >= SECONDS:
                break
        load.stop(2.0)
        return events, load.facts()


def _figures(sessions: int, events: list[LoadEvent], facts: RunFacts) -> Step:
    progress = [event for event in events if event.kind == "progress"]
    if not progress or progress[-1].t < SECONDS:
        return Step(sessions, trouble=f"not done within {STEP_LIMIT:g} s")
    answers = facts.frames["t_done"] - facts.frames["t_ready"]
    answers = answers[np.isfinite(answers)]
    p50, p99 = (float(value) for value in np.quantile(answers, (0.5, 0.99))) if len(answers) else (None, None)
    first, last = progress[0], progress[-1]
    return Step(
        sessions,
        lag_p50=histogram_quantile(facts.lag_counts, 0.5),
        lag_p99=histogram_quantile(facts.lag_counts, 0.99),
        answer_p50=p50,
        answer_p99=p99,
        cpu=(last.cpu - first.cpu) / (last.t - first.t) if last.t > first.t else None,
    )
