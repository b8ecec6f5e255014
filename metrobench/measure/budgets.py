"""Sessions with budgets of their own, side by side: how each fared, and each class of one budget as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec import Struct

from metrobench.measure.frames import Bools, Floats, FrameTable
from metrobench.measure.latency import latency
from metrobench.measure.misses import FIRM_MISSES, worst_windows


class SessionMisses(Struct, frozen=True):
    """(m,k)-firm accounting of one admitted session."""

    session: int
    budget: float
    """B, seconds."""
    due: int
    """Frames whose outcome is known."""
    missed: int
    worst: int | None
    """m: most misses in any 20 consecutive frames; None: it had fewer."""


class BudgetClass(Struct, frozen=True):
    """All admitted sessions of one budget."""

    budget: float
    """B, seconds."""
    sessions: int
    due: int
    missed: int
    p50: float | None
    p99: float | None
    """Latency, seconds; None: too few frames, or it falls among frames with no answer."""
    judged: int
    """Sessions with 20 frames or more."""
    not_firm: int
    """Of these, sessions with more than 1 miss in some 20 consecutive frames."""


def session_misses(numbers: list[int], budgets: Floats, due: Bools, missed: Bools) -> list[SessionMisses]:
    """One row a session that had a frame due. Arrays of one row a session, in the order of `numbers`."""
    worst = worst_windows(missed, due).tolist()
    counts = zip(numbers, budgets.tolist(), due.sum(axis=1).tolist(), missed.sum(axis=1).tolist(), worst, strict=True)
    return [
        SessionMisses(session, budget, frames, late, None if most < 0 else most)
        for session, budget, frames, late, most in counts
        if frames
    ]


def budget_classes(table: FrameTable, budgets: Floats, rows: list[SessionMisses]) -> list[BudgetClass]:
    """The classes, the tightest budget first. `table`: of admitted sessions; `budgets`: one a row of it."""
    found = []
    for budget in sorted({row.budget for row in rows}):
        mine = [row for row in rows if row.budget == budget]
        others = budgets != budget
        times = latency(replace(table, ready=np.where(others[:, None], np.inf, table.ready)).whole)
        judged = [row.worst for row in mine if row.worst is not None]
        found.append(
            BudgetClass(
                budget=budget,
                sessions=len(mine),
                due=sum(row.due for row in mine),
                missed=sum(row.missed for row in mine),
                p50=times.p50,
                p99=times.p99,
                judged=len(judged),
                not_firm=sum(worst > FIRM_MISSES for worst in judged),
            )
        )
    return found
