"""The spoken probe at work: every question in a fresh session, twice, then long sessions; by the load process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import numpy as np

from metrobench.endpoints.base import Stream
from metrobench.endpoints.registry import make_endpoint
from metrobench.errors import NotValidError
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent, LoadSpec, tape_of
from metrobench.load.tape import read_tape
from metrobench.measure.facts import RunFacts
from metrobench.quality.arms import FRESH, LONG
from metrobench.quality.spoken.answer import LATE, NONE, RIGHT, WRONG, Reply, Stage
from metrobench.quality.spoken.hear import Transcribe, replies
from metrobench.quality.spoken.plan import Session, Spoken, lay_out, long_session, timetable

BUDGET = 0.5
"""Seconds that a session stays after its last silence."""
POLL = 0.2
LEAST_POOL = 4
"""Questions without which nothing can be asked for long."""
CHOICE = "fresh sessions, to choose the questions"
"""The first stage; then FRESH and LONG."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is asked, and how."""

    spec: LoadSpec
    """Protocol, address, access, table and rate; the rest is filled in."""
    stream: Stream
    pool: tuple[Spoken, ...]
    sessions: int
    """Long ones."""
    duration: float
    """Seconds of each of them."""
    deadline: float
    """Seconds from the end of a question in which an answer is in time."""
    at_once: int
    seed: int


@dataclass(slots=True)
class Course:
    """What the caller hears and decides meanwhile."""

    store: Callable[[Stage], None]
    show: Callable[[str], None]
    stopped: Callable[[], bool]
    folder: Path
    """For what the load process records; emptied after each stage."""
    transcribe: Transcribe


def run(setting: Setting, course: Course) -> None:
    """All stages, or those up to a stop. Raises NotValidError where the endpoint knows too little, UnreachableError."""
    fresh = [lay_out((question,), setting.deadline) for question in setting.pool]
    first = _stage(CHOICE, fresh, setting, course)
    if course.stopped():
        return
    known = {reply.question for reply in first.replies if reply.verdict == RIGHT}
    pool = tuple(question for question in setting.pool if question.text in known)
    if len(pool) < LEAST_POOL:
        raise NotValidError(
            f"this endpoint answers {len(pool)} of {len(setting.pool)} questions in fresh sessions ({_words(first)})",
            "is it a model that answers questions, in this --language, within --deadline?",
        )
    again = [lay_out((question,), setting.deadline) for question in pool]
    _stage(FRESH, again, setting, course)
    if course.stopped():
        return
    plans = [
        long_session(pool, setting.duration, setting.deadline, setting.seed, number)
        for number in range(setting.sessions)
    ]
    _stage(LONG, plans, setting, course)


def seconds_needed(setting: Setting) -> float:
    """About how long all stages take at most."""
    fresh = [lay_out((question,), setting.deadline) for question in setting.pool]
    plans = [long_session(setting.pool, setting.duration, setting.deadline, setting.seed, 0)] * setting.sessions
    return 2 * _length(fresh, setting) + _length(plans, setting)


def _length(plans: Sequence[Session], setting: Setting) -> float:
    table = timetable(plans, setting.at_once, setting.stream.unit, setting.stream.first_ready, BUDGET)
    return float(table.ends(setting.stream.unit).max()) + BUDGET


def _stage(name: str, plans: Sequence[Session], setting: Setting, course: Course) -> Stage:
    folder = course.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        spec = _orders(plans, setting, folder)
        facts = _load(spec, f"{name} · {len(plans)} session{'' if len(plans) == 1 else 's'}", course)
        course.show(f"{name}: reading the answers")
        read, closed = _read(plans, spec, facts, setting, course)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    heard = [reply for session in read for reply in session]
    planned = sum(len(plan.questions) for plan in plans)
    stage = Stage(name, len(plans), len(read), planned - len(heard), heard, closed, lateness(facts))
    course.store(stage)
    return stage


def _orders(plans: Sequence[Session], setting: Setting, folder: Path) -> LoadSpec:
    """What the load process does in a stage."""
    stream = setting.stream
    table = timetable(plans, setting.at_once, stream.unit, stream.first_ready, BUDGET)
    return replace(
        setting.spec,
        mode="open",
        sessions=len(plans),
        frames=max(table.frames),
        max_frames=max(table.frames),
        timetable=table,
        scripts=tuple(plan.script for plan in plans),
        record_all=folder,
        spool=folder / "spool",
    )


def _read(
    plans: Sequence[Session], spec: LoadSpec, facts: RunFacts, setting: Setting, course: Course
) -> tuple[list[list[Reply]], int]:
    """What the sessions that were opened answered, and how many of them were ended before their time."""
    endpoint = make_endpoint(
        spec.protocol,
        spec.url,
        unit=spec.unit,
        first_ready=spec.first_ready,
        sample_rate=spec.sample_rate,
        access=spec.access,
    )
    found, closed = [], 0
    for plan, session in zip(plans, facts.sessions, strict=True):
        assert spec.record_all is not None
        path = tape_of(spec.record_all, session.session)
        # there is none where the process was stopped before it began
        if not session.refused and path.is_file():
            over = (facts.t_stop if session.t_closed is None else session.t_closed) - session.phase
            tape = read_tape(path)
            found.append(replies(plan, session.session, tape, endpoint, over, setting.deadline, course.transcribe))
            closed += session.t_closed is not None and over < plan.ends[-1] + setting.deadline
    return found, closed


def lateness(facts: RunFacts) -> float | None:
    """The largest lateness of the client itself, seconds; None: nothing was sent."""
    lags = facts.frames["lag_max"]
    stood = [end - begin for begin, end in facts.stalls if begin >= 0.0]
    known = [*lags[np.isfinite(lags)].tolist(), *stood]
    return round(float(max(known)), 3) if known else None


def _load(spec: LoadSpec, title: str, course: Course) -> RunFacts:
    """Stream to the endpoint; the facts. Raises MetrobenchError."""
    assert spec.timetable is not None
    began, whole = monotonic(), float(spec.timetable.ends(spec.unit).max())
    with LoadProcess(spec) as load:
        load.start()
        while not course.stopped():
            event = load.next_event(POLL)
            if event is None:
                continue
            if event.kind == "started":
                began = monotonic()
            elif event.kind == "progress":
                course.show(_status(title, event, monotonic() - began, whole))
            elif event.kind == "stopped":
                break
            elif event.kind in ("failed", "died"):
                raise event.error()
        load.stop()
        return load.facts()


def _status(title: str, event: LoadEvent, t: float, whole: float) -> str:
    return f"{title} · {event.connected} open · {t:.0f} of {whole:.0f} s"


def _words(stage: Stage) -> str:
    counts = {verdict: sum(reply.verdict == verdict for reply in stage.replies) for verdict in (WRONG, NONE, LATE)}
    words = f"{counts[WRONG]} wrong, {counts[NONE]} without an answer, {counts[LATE]} late"
    return words + (f", {stage.unasked} not asked" if stage.unasked else "")
