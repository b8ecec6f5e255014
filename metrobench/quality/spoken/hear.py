"""What an endpoint said to each question, from the wire traffic of a session. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from metrobench.corpus.turns import QUIET_DBFS
from metrobench.endpoints.base import Endpoint, Kind
from metrobench.load.tape import LARGEST, Tape
from metrobench.quality.scoring import hollow
from metrobench.quality.spoken.answer import Piece, Reply, judge, overdue
from metrobench.quality.spoken.plan import Session

FULL = 0.9
"""Share of the largest recording from which it may have been cut off."""
EARLY = 0.2
"""Seconds before a question's end from which an answer to it may begin: where its last word ends is an estimate."""

Transcribe = Callable[[bytes, int], str]
"""(PCM16, Hz) -> words."""


@dataclass(slots=True)
class Heard:
    """What came to one question. Times are seconds from its end."""

    pieces: list[Piece] = field(default_factory=list)
    speech: list[tuple[float, bytes, int]] = field(default_factory=list)
    """(time, PCM16, Hz) of its audio."""

    @property
    def mute(self) -> bool:
        """There is speech, but no word of it in writing."""
        return all(hollow(piece.text) for piece in self.pieces) and _loud(self.speech)


def replies(
    plan: Session, number: int, tape: Tape, endpoint: Endpoint, over: float, deadline: float, transcribe: Transcribe
) -> list[Reply]:
    """What session `number`, which was over at `over` seconds of its audio, answered. Questions that it was not asked,
    or not listened to until the deadline, are left out."""
    count = bisect_right([end + deadline for end in plan.ends], min(over, _recorded_until(tape)))
    found = []
    for place, heard in enumerate(hear(tape, endpoint, plan.ends)[:count]):
        question = plan.questions[place]
        pieces = in_writing(heard, deadline, transcribe) if heard.mute else heard.pieces
        first = next((piece.t for piece in pieces if not hollow(piece.text)), None)
        found.append(
            Reply(
                session=number,
                place=place,
                age=round(plan.ends[place], 2),
                question=question.text,
                verdict=judge(pieces, question.aliases, deadline),
                text="".join(piece.text for piece in pieces).strip(),
                first=None if first is None else round(first, 3),
            )
        )
    return overdue(found, [question.aliases for question in plan.questions])


def hear(tape: Tape, endpoint: Endpoint, ends: Sequence[float]) -> list[Heard]:
    """What came to each question whose speech was over at `ends` seconds of the session's audio.

    Words belong to the question that was the newest when their answer began, where the protocol tells that, else to
    the newest one when they came. What came before the first question's end belongs to none.
    """
    found = [Heard() for _ in ends]
    listen, decode = endpoint.listener(), endpoint.decoder()
    answer: int | None = None
    for entry in tape.entries:
        if entry.who != "server" or entry.close is not None:
            continue
        kind, said = decode(entry.payload).kind, listen(entry.payload)
        newest = -1 if entry.t is None else bisect_right(ends, entry.t + EARLY) - 1
        if kind is Kind.TURN_START:
            answer = newest
        place = newest if answer is None else answer
        if kind is Kind.TURN_DONE:
            answer = None
        if place < 0 or entry.t is None:
            continue
        t = max(0.0, entry.t - ends[place])
        if said.text:
            found[place].pieces.append(Piece(t, said.text))
        if said.audio:
            found[place].speech.append((t, said.audio, said.rate))
    return found


def _recorded_until(tape: Tape) -> float:
    """When a recording stopped because it was too large, seconds of the session's audio; infinite: it did not."""
    size = sum(len(entry.text or entry.data or "") for entry in tape.entries)
    return tape.entries[-1].t or 0.0 if size >= FULL * LARGEST else float("inf")


def in_writing(heard: Heard, deadline: float, transcribe: Transcribe) -> list[Piece]:
    """The words of an answer that was only spoken: what was there at the deadline, and all of it."""
    pieces = []
    if _loud(before := [part for part in heard.speech if part[0] <= deadline]):
        pieces.append(Piece(before[-1][0], transcribe(*_joined(before))))
    if len(before) < len(heard.speech):
        pieces.append(Piece(heard.speech[-1][0], f" {transcribe(*_joined(heard.speech))}"))
    return pieces


def _joined(speech: Sequence[tuple[float, bytes, int]]) -> tuple[bytes, int]:
    return b"".join(pcm[: len(pcm) & ~1] for _, pcm, _ in speech), speech[0][2]


def _loud(speech: Sequence[tuple[float, bytes, int]]) -> bool:
    """Whether any part of it is louder than silence."""
    limit = 10.0 ** (QUIET_DBFS / 10.0) * 32768.0**2
    for _, pcm, _ in speech:
        samples = np.frombuffer(pcm[: len(pcm) & ~1], dtype="<i2").astype(np.float64)
        if len(samples) and float(np.mean(samples**2)) > limit:
            return True
    return False
