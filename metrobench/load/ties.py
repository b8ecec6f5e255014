"""Which frame a message belongs to, in protocols that do not answer every frame in order (protocols.md, section 0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from metrobench.endpoints.base import FrameClass, Kind, Observation
from metrobench.measure.facts import FrameFlag

if TYPE_CHECKING:
    from metrobench.load.conn import Conn

TIED = frozenset({Kind.FRAME_DONE, Kind.OUTPUT, Kind.TURN_START, Kind.TURN_DONE})
"""What belongs to a frame."""


def tie_unit(conn: Conn, now: float, seen: Observation) -> None:
    """Class B. Where no media time ties, answers are counted. A frame that is not ready yet has none; and speech that
    plays without a gap has taken the frames of its time, with or without a message for each."""
    turns, t, ready = conn.turns, now - conn.book.t0, conn.book.ready
    if seen.kind is Kind.TURN_START:
        turns.begin(t)
    if seen.audio > 0.0:
        turns.player.hear(t, seen.audio)
    newest = turns.newest(t)
    last = newest if seen.frame is None else len(ready) - 1
    if seen.kind is Kind.FRAME_DONE and not seen.count:
        frame = conn.next_answer - 1 if seen.frame is None else seen.frame
        if 0 <= frame < min(conn.next_answer, last + 1) and not conn.book.ending:
            conn.book.spool.again(conn.row(frame), t)
    elif seen.kind is Kind.FRAME_DONE:
        first = conn.next_answer if seen.frame is None else seen.frame
        turns.counted += seen.count
        for frame in range(max(0, first), min(first + seen.count, last + 1)):
            conn.answer(frame, now, seen)
    elif seen.kind is Kind.OUTPUT and 0 <= conn.next_answer <= last:
        conn.book.spool.first(conn.row(conn.next_answer), t)
    elif seen.kind is Kind.TURN_DONE and not turns.player.broken:
        untold = int((t - turns.began) / conn.book.unit) - turns.counted
        for frame in range(conn.next_answer, min(conn.next_answer + untold, newest + 1)):
            conn.answer(frame, now, seen)


def tie_segment(conn: Conn, now: float, seen: Observation) -> None:
    """Class C: output belongs to the newest segment that is ready, and the last output completes it."""
    book, t = conn.book, now - conn.book.t0
    frame = conn.turns.newest(t)
    if seen.kind is not Kind.OUTPUT or not 0 <= frame < len(book.ready) or book.ending:
        return
    book.spool.first(conn.row(frame), t)
    if frame < conn.next_answer:
        book.spool.again(conn.row(frame), t)
    else:
        conn.answer(frame, now, seen)


def tie_turn(conn: Conn, now: float, seen: Observation) -> None:
    """Class D: the first sound of an answer completes its turn, unless the rest comes too slowly to be played. An
    answer without any sound completes it at its end."""
    turns, book, t = conn.turns, conn.book, now - conn.book.t0
    if seen.kind is Kind.TURN_START:
        turns.begin(t)
        return
    frame = turns.current(t)
    if 0 <= frame < len(book.ready):
        if seen.kind is Kind.OUTPUT:
            book.spool.first(conn.row(frame), t)
        if seen.audio > 0.0:
            turns.player.hear(t, seen.audio)
            conn.answer(frame, now, seen)
            if turns.player.broken:
                book.spool.flag(conn.row(frame), FrameFlag.BROKEN)
        elif seen.kind is Kind.TURN_DONE and seen.tokens:
            conn.answer(frame, now, seen)
    if seen.kind is Kind.TURN_DONE:
        turns.end()


TIES: dict[FrameClass, Callable[[Conn, float, Observation], None]] = {
    FrameClass.UNIT_LOSSY: tie_unit,
    FrameClass.SEGMENT: tie_segment,
    FrameClass.TURN: tie_turn,
}
"""By class; class A needs none: its answers come in order, one for each frame."""
