"""The census of misses in the measured span."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from metrobench.measure.frames import Bools, FrameTable, Span
from metrobench.measure.intervals import Share, korn_graubard

FIRM_FRAMES = 20
"""k of the (m,k)-firm measure: consecutive frames looked at together."""
FIRM_MISSES = 1
"""m: misses in them that are still fine."""

EARLY = 1e-3
"""Seconds before t_ready from which an answer is too early to be one: no chunk is sent before it is due."""


class Misses(Struct, frozen=True):
    """Counts over all due frames of all planned sessions."""

    planned: int
    """Frames of the measured span, all sessions."""
    due: int
    """Of these, frames whose deadline passed while the run streamed."""
    met: int
    """Answered in full within the budget."""
    missed: int
    """Late, lost or dead, whatever the client did."""
    ambiguous: int
    """Late by no more than the client's own lateness: neither."""
    late: int
    """Missed frames whose answer came, too late."""
    lost: int
    """Missed frames of open sessions whose answer never came."""
    dead: int
    """Missed frames of sessions that were refused or closed."""
    dropped: int
    """Lost frames that the server skipped: it answered a later frame of the same session."""
    hollow: int
    """Met frames that were empty where content was due."""
    rate: float | None
    """missed / due; None: nothing fell due."""
    interval: Share | None
    """Within-run 95 % interval of the rate (Korn-Graubard, clusters by session and by time). Descriptive."""
    longest_run: int
    """Longest run of consecutive missed frames of one session."""
    not_firm: float | None
    """Share of sessions with more than 1 miss in some 20 consecutive frames; None under 20 frames."""
    refused: int
    """Sessions not connected, not accepted or not filled."""
    died: int
    """Sessions whose connection ended early."""
    early: int = 0
    """Frames "answered" before their last sample was due: such replies belong to other frames."""
    rolled: int = 0
    """Answered frames for which the server had to build the session's context again (FrameFlag.ROLLOVER)."""


def census(table: FrameTable, span: Span) -> Misses:
    """Counts of the measured span of a run."""
    missed, silent = span.missed, span.missed & ~span.answered
    due = int(span.due.sum())
    return Misses(
        planned=table.plan.planned,
        due=due,
        met=int(span.met.sum()),
        missed=int(missed.sum()),
        ambiguous=int(span.ambiguous.sum()),
        late=int((missed & span.answered).sum()),
        lost=int((silent & ~span.dead).sum()),
        dead=int((silent & span.dead).sum()),
        dropped=int((silent & ~span.dead & _passed_over(span.answered)).sum()),
        early=int((span.answered & (span.done < span.ready - EARLY)).sum()),
        hollow=int((span.met & span.empty).sum()),
        rate=int(missed.sum()) / due if due else None,
        interval=_interval(span, table.plan.block),
        longest_run=longest_run(missed),
        not_firm=_not_firm(missed, span.due),
        refused=int(table.refused.sum()),
        died=int((np.isfinite(table.closed) & ~table.refused).sum()),
        rolled=int(span.rolled.sum()),
    )


def longest_run(missed: Bools) -> int:
    """Longest run of True along the last axis of a (sessions, frames) array."""
    if not missed.any():
        return 0
    count = np.cumsum(missed, axis=1)
    base = np.maximum.accumulate(np.where(missed, 0, count), axis=1)
    return int((count - base).max())


def _passed_over(answered: Bools) -> Bools:
    """Frames after which the same session had an answer."""
    later = np.logical_or.accumulate(answered[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([later[:, 1:], np.zeros((len(answered), 1), dtype=bool)], axis=1)


def worst_windows(missed: Bools, due: Bools) -> npt.NDArray[np.int64]:
    """Most misses of each session in any FIRM_FRAMES consecutive frames; -1 where it had fewer due. (sessions, frames)
    arrays."""
    judged = due.sum(axis=1) >= FIRM_FRAMES
    if not judged.any():
        return np.full(len(missed), -1)
    count = np.concatenate([np.zeros((len(missed), 1), dtype=np.int64), np.cumsum(missed, axis=1)], axis=1)
    return np.where(judged, (count[:, FIRM_FRAMES:] - count[:, :-FIRM_FRAMES]).max(axis=1), -1)


def _not_firm(missed: Bools, due: Bools) -> float | None:
    worst = worst_windows(missed, due)
    judged = worst >= 0
    return float((worst[judged] > FIRM_MISSES).mean()) if judged.any() else None


def _interval(span: Span, block: float) -> Share | None:
    due = span.due
    if not due.any():
        return None
    session = np.broadcast_to(np.arange(due.shape[0])[:, None], due.shape)[due]
    ready = span.ready[due]
    return korn_graubard(span.missed[due], session, ((ready - ready.min()) / block).astype(np.int64))
