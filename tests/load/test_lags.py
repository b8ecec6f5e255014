from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.load.lags import APART, BINS, StallWatch, bin_of
from metrobench.measure.facts import LAG_EDGES


@given(st.floats(-1.0, 1000.0))
def test_bin_holds_the_lag(lag: float) -> None:
    place = bin_of(lag)
    clipped = min(max(lag, 0.0), LAG_EDGES[-1])
    assert 0 <= place < BINS
    assert LAG_EDGES[place] * (1 - 1e-9) - 1e-12 <= clipped <= LAG_EDGES[place + 1] * (1 + 1e-9) + 1e-12


def watch() -> tuple[StallWatch, list[tuple[float, float]]]:
    stalls: list[tuple[float, float]] = []
    return StallWatch(0.0, lambda start, end: stalls.append((start, end))), stalls


def test_punctual_wake_ups_are_no_stall() -> None:
    watcher, stalls = watch()
    for tick in range(1, 100):
        watcher.turn(tick * 0.001 + 0.0009, tick * 0.001)
    watcher.close(0.101)
    assert stalls == []


def test_stall_lasts_from_the_last_turn_to_the_one_after_the_late_one() -> None:
    watcher, stalls = watch()
    watcher.turn(0.001, 0.001)
    watcher.turn(0.052, 0.002)
    assert watcher.since(0.052) == 0.001 and stalls == []
    watcher.turn(0.053, 0.053)
    assert stalls == [(0.001, 0.053)] and watcher.since(0.053) is None


def test_long_stalls_in_a_row_are_one() -> None:
    watcher, stalls = watch()
    watcher.turn(0.010, 0.001)
    watcher.turn(0.030, 0.011)
    watcher.turn(0.031, 0.031)
    assert stalls == [(0.0, 0.031)]


def test_short_stalls_in_a_row_stay_short() -> None:
    watcher, stalls = watch()
    for turn in range(1, 101):
        watcher.turn(turn * 0.004, turn * 0.004 - 0.002)
    watcher.close(0.404)
    assert len(stalls) == 100
    lengths = [end - start for start, end in stalls]
    assert max(lengths) <= 0.008 + 1e-9
    assert all(later > earlier for (_, earlier), (later, _) in pairwise(stalls))


def test_answers_read_after_a_late_turn_lie_in_its_stall() -> None:
    watcher, stalls = watch()
    watcher.turn(0.001, 0.001)
    watcher.turn(1.501, 0.002)
    watcher.turn(1.503, 1.502)
    ((start, end),) = stalls
    assert start == 0.001 and end == 1.503


def test_open_stall_ends_with_the_watch() -> None:
    watcher, stalls = watch()
    watcher.turn(0.5, 0.1)
    watcher.close(0.6)
    watcher.close(0.7)
    assert stalls == [(0.0, pytest.approx(0.6))]


def test_a_hold_up_in_the_middle_of_a_turn_is_known_before_the_next_wake_up() -> None:
    watcher, stalls = watch()
    watcher.turn(0.001, 0.001)
    assert watcher.since(0.0015) is None
    assert watcher.since(1.5) == 0.001
    watcher.turn(1.501, 0.002)
    watcher.turn(1.502, 1.502)
    assert stalls == [(0.001, 1.502)]


def test_a_hold_up_in_the_last_turn_is_recorded_once() -> None:
    watcher, stalls = watch()
    watcher.turn(0.001, 0.001)
    watcher.close(1.5)
    watcher.close(1.6)
    assert stalls == [(0.001, pytest.approx(1.5))]


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.0003, 0.002, 0.5]), st.sampled_from([0.0, 0.0003, 0.5]))))
def test_at_every_moment_all_longer_hold_ups_are_known(turns: list[tuple[float, float]]) -> None:
    """Each turn: seconds by which its wake-up is late, and seconds that it takes itself."""
    watcher, stalls = watch()
    now = 0.0
    for late, long in turns:
        woke, before = now + 0.001 + late, now
        watcher.turn(woke, now + 0.001)
        now = woke + long
        since = watcher.since(now)
        known = [*stalls, (since, now)] if since is not None else stalls
        for start, end in ((before, woke), (woke, now)):
            if end - start > 0.0021:
                assert any(first <= start + APART and end <= last for first, last in known)
