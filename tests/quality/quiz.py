"""An endpoint whose every answer is scripted, in virtual time: the wire traffic of a session, as it is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from metrobench.endpoints.base import Endpoint
from metrobench.endpoints.registry import make_endpoint
from metrobench.load.tape import Entry, Head, Tape
from metrobench.quality.arms import FRESH, LONG
from metrobench.quality.spoken.answer import Reply, Stage
from metrobench.quality.spoken.hear import Transcribe, replies
from metrobench.quality.spoken.plan import Session, Spoken, lay_out, long_session
from metrobench.quality.spoken.probe import CHOICE

DEADLINE, DURATION = 10.0, 300.0
POOL = tuple(
    Spoken(f"What is number {number}?", (f"answer{number:02d}",), 1 + 100 * number, 100) for number in range(20)
)
Answer = tuple[str, float] | None
"""Words and seconds after the question; None: silence."""
Rule = Callable[[Spoken, float, int], Answer]
"""(question, age, place) to what is answered."""


def right(question: Spoken, age: float, place: int) -> Answer:
    """At once, and right."""
    return f"It is {question.aliases[0]}.", 0.8


def wrong_from(age: float) -> Rule:
    """Right, and from an age on not."""
    return lambda question, now, place: right(question, now, place) if now < age else ("It is the the the.", 0.8)


def delayed(seconds: float) -> Rule:
    """Right, and so late."""
    return lambda question, age, place: (f"It is {question.aliases[0]}.", seconds)


def silent(question: Spoken, age: float, place: int) -> Answer:
    """Never anything."""
    return None


def half(rule: Rule) -> Rule:
    """Every other question of a session is answered by silence; single ones never are."""
    return lambda question, age, place: None if place % 2 else rule(question, age, place)


def endpoint() -> Endpoint:
    """Of the protocol that tapes are in."""
    return make_endpoint("realtime", "ws://127.0.0.1:1/", unit=0.5, first_ready=0.5, sample_rate=16_000)


def tape(session: Session, rule: Rule) -> Tape:
    """What the server said."""
    said: list[Entry] = [Entry("server", text=json.dumps({"type": "session.updated"}))]
    for place, (question, end) in enumerate(zip(session.questions, session.ends, strict=True)):
        if (answer := rule(question, end, place)) is not None:
            words, delay = answer
            parts = [f" {word}" for word in words.split()]
            said += [delta(part, end + delay + 0.05 * number) for number, part in enumerate(parts)]
    return Tape(Head("realtime", 0.5, 0.5, 16_000, False), sorted(said, key=lambda entry: entry.t or 0.0))


def delta(text: str, t: float) -> Entry:
    """A part of an answer in writing."""
    return Entry("server", t, text=json.dumps({"type": "response.output_text.delta", "delta": text}))


def nobody(pcm: bytes, rate: int) -> str:
    """Where no speech may need reading."""
    raise AssertionError("there is nothing to transcribe")


def heard(session: Session, rule: Rule, number: int = 0, transcribe: Transcribe = nobody) -> list[Reply]:
    """One session that lived to its end."""
    return replies(session, number, tape(session, rule), endpoint(), session.length, DEADLINE, transcribe)


def stages(rule: Rule, sessions: int = 12, duration: float = DURATION) -> tuple[Stage, Stage, Stage]:
    """A whole probe."""
    fresh = [lay_out((question,), DEADLINE) for question in POOL]
    long = [long_session(POOL, duration, DEADLINE, 1, number) for number in range(sessions)]
    return _stage(CHOICE, fresh, rule), _stage(FRESH, fresh, rule), _stage(LONG, long, rule)


def _stage(name: str, plans: Sequence[Session], rule: Rule) -> Stage:
    found = [reply for number, plan in enumerate(plans) for reply in heard(plan, rule, number)]
    return Stage(name, len(plans), len(plans), 0, found)
