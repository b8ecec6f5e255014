"""What became of one question: right, wrong, none or late. Pure.

Only an answer that was complete in time can be wrong. What comes later, or not at all, is late or none: the endpoint
may have known it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from metrobench.quality.scoring import answers, hollow

RIGHT, WRONG, NONE, LATE = "right", "wrong", "none", "late"
VERDICTS = (RIGHT, WRONG, NONE, LATE)
MOST_WORDS = 20
"""Words after which an answer counts as complete: who has not named the fact by then talks of something else."""


class Piece(Struct, frozen=True):
    """Some words."""

    t: float
    """Seconds from the end of the question to their arrival."""
    text: str


class Reply(Struct, frozen=True, kw_only=True):
    """One question of one session, and what came of it."""

    session: int
    place: int
    """Order within the session, from 0."""
    age: float
    """Seconds of the session's audio up to the end of the question."""
    question: str
    verdict: str
    """One of VERDICTS."""
    text: str
    """All that was said to it."""
    first: float | None
    """Seconds to the first word; None: no word."""


class Stage(Struct, frozen=True):
    """All that one stage heard."""

    name: str
    planned: int
    """Sessions."""
    opened: int
    """Sessions that were opened."""
    unasked: int
    """Questions that were planned but not asked, or not listened to: the session ended before, or never began."""
    replies: list[Reply]
    closed: int = 0
    """Sessions that the endpoint ended before all questions were heard."""
    lateness: float | None = None
    """The client's own, seconds: the largest of what chunks were sent late and what its loop stood still."""


def judge(pieces: Sequence[Piece], aliases: Sequence[str], deadline: float) -> str:
    """The verdict on the words that came to a question, in order; `deadline` in seconds from its end."""
    said, last = "", None
    for piece in pieces:
        said += piece.text
        if hollow(piece.text):
            continue
        last = piece.t
        if answers(said, aliases):
            return RIGHT if piece.t <= deadline else LATE
        if len(said.split()) >= MOST_WORDS:
            break
    if last is None:
        return NONE
    return WRONG if last <= deadline else LATE


def overdue(replies: Sequence[Reply], aliases: Sequence[Sequence[str]]) -> list[Reply]:
    """The replies of one session in order, with answers that came only after the next question given back: one that is
    not right, but names the answer of an earlier question that has none, or of the last one, was late for that one.

    aliases: of each reply's question.
    """
    found = list(replies)
    for place, reply in enumerate(replies):
        if reply.verdict in (RIGHT, NONE):
            continue
        for earlier in range(place - 1, -1, -1):
            owing = found[earlier].verdict in (NONE, LATE) or (earlier == place - 1 and found[earlier].verdict == WRONG)
            if owing and answers(reply.text, aliases[earlier]):
                found[earlier] = replace(found[earlier], verdict=LATE)
                found[place] = replace(reply, verdict=NONE)
                break
    return found
