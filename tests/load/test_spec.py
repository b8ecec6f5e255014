from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from metrobench.errors import NotValidError, UnreachableError, UsageError
from metrobench.load.spec import GRACE, LoadEvent, LoadSpec

GOOD = LoadSpec(
    protocol="realtime",
    url="ws://h/",
    sessions=4,
    budget=1.0,
    unit=0.5,
    first_ready=0.5,
    seed=1,
    clips=(Path("a"),),
    cut_frames=2,
    frames=10,
    max_frames=40,
    spool=Path("s"),
)


def test_good_spec_passes() -> None:
    GOOD.check()


@pytest.mark.parametrize(
    "change",
    [
        {"sessions": 0},
        {"sessions": 10**7},
        {"budget": 0.0},
        {"budget": float("nan")},
        {"unit": -1.0},
        {"first_ready": float("inf")},
        {"seed": -1},
        {"cut_frames": -1},
        {"frames": 0},
        {"max_frames": 9},
        {"fill_tokens": -1},
        {"connect_timeout": 0.0},
        {"sample_rate": 100},
        {"mode": "burst"},
        {"clips": ()},
        {"sessions": 50_000, "max_frames": 10_000},
    ],
)
def test_fields_out_of_bounds_are_errors(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(GOOD, **change).check()  # type: ignore[arg-type]


def test_table_has_room_for_all_frames_that_become_due() -> None:
    schedule = GOOD.schedule()
    last = GOOD.cut_frames + GOOD.max_frames - 1
    end = schedule.end_of(last) + GOOD.budget + GRACE
    assert (schedule.ready_table(GOOD.table_frames)[-1] > end).all()


def test_failed_event_is_an_error_with_the_right_exit_code() -> None:
    unreachable = LoadEvent("failed", message="m", hint="h", cause="unreachable").error()
    assert isinstance(unreachable, UnreachableError) and (unreachable.message, unreachable.hint) == ("m", "h")
    assert isinstance(LoadEvent("failed", cause="usage").error(), UsageError)
    assert isinstance(LoadEvent("died").error(), NotValidError)


def test_an_objective_looser_than_the_budget_is_waited_for() -> None:
    loose = replace(GOOD, limit=3.0)
    assert (loose.late_after, loose.wait) == (3.0, 3.0)
    assert loose.table_frames > GOOD.table_frames
    tight = replace(GOOD, limit=0.25)
    assert (tight.late_after, tight.wait) == (0.25, 1.0)


def test_phases_spread_over_the_budget_whatever_the_objective() -> None:
    assert replace(GOOD, limit=30.0).schedule().phases.max() < GOOD.budget
