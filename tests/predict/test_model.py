"""Block arithmetic against an engine that allocates block by block: exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.policy import KvPolicy, parse_policy, peak_blocks
from metrobench.predict.model import (
    FREE,
    Group,
    Pool,
    blocks_at,
    crossing,
    crossing_of,
    impossible,
    most_sessions,
    positions_end,
    sessions_for,
)
from tests.predict.engine import Engine, Talker

STARTS = st.lists(st.integers(0, 300).map(lambda n: n / 100), min_size=1, max_size=6)
POOLS = st.builds(Pool, st.integers(2, 60), st.sampled_from([1, 4, 16, 32]))
UNITS = st.sampled_from([0.08, 0.5, 1.0, 2.0])


@st.composite
def groups(draw: st.DrawFn) -> Group:
    starts = draw(STARTS)
    resident = draw(st.lists(st.integers(0, 60), min_size=len(starts), max_size=len(starts)))
    return Group(np.array(starts), draw(UNITS), draw(st.integers(1, 40)), np.array(resident))


def talkers(group: Group, most: int | None = None) -> list[Talker]:
    return [
        Talker(float(start), group.unit, [int(group.growth)], int(held), most)
        for start, held in zip(group.starts, group.resident, strict=True)
    ]


@given(POOLS, st.lists(groups(), min_size=1, max_size=3))
def test_sessions_of_any_age_rate_and_arrival_fill_the_pool_when_the_engine_says(
    pool: Pool, several: list[Group]
) -> None:
    engine = Engine(pool, [talker for group in several for talker in talkers(group)])
    expected = engine.full_at(frames=pool.blocks * pool.block_size + 1)
    assert crossing(pool, several) == pytest.approx(expected, abs=1e-5)


@given(POOLS, groups(), st.integers(1, 8), st.integers(0, 64))
def test_windowed_sessions_fill_the_pool_when_the_engine_says_or_never(
    pool: Pool, group: Group, window: int, in_flight: int
) -> None:
    policy = KvPolicy("window", window * pool.block_size)
    bounded = Group(group.starts, group.unit, group.growth, group.resident, policy, in_flight)
    most = peak_blocks(policy, in_flight, pool.block_size)
    expected = Engine(pool, talkers(group, most)).full_at(frames=(most + 2) * pool.block_size)
    assert crossing(pool, [bounded]) == (None if expected is None else pytest.approx(expected, abs=1e-5))
    assert impossible(pool, [bounded]) == (most * group.sessions <= pool.usable)


@given(POOLS, STARTS, UNITS, st.data())
def test_sessions_whose_frames_differ_fill_the_pool_when_the_engine_says(
    pool: Pool, starts: list[float], unit: float, data: st.DataObject
) -> None:
    frames = data.draw(st.integers(1, 30))
    rows = st.lists(st.integers(1, 40), min_size=frames, max_size=frames)
    growth = [data.draw(rows) for _ in starts]
    engine = Engine(pool, [Talker(start, unit, row, 0) for start, row in zip(starts, growth, strict=True)])
    expected = engine.full_at(frames)
    found = crossing_of(pool, np.array(starts), unit, np.cumsum(growth, axis=1))
    # fast sessions run on after their last frame of the table: only what lies before the first end is compared
    if expected is not None and expected <= min(starts) + frames * unit:
        assert found == pytest.approx(expected, abs=1e-5)


@given(POOLS, st.integers(1, 6), st.integers(1, 30), st.integers(2, 80))
def test_a_context_closed_at_twice_its_window_never_holds_more_than_that_and_a_frame(
    pool: Pool, sessions: int, growth: int, window: int
) -> None:
    policy = KvPolicy("recycle", window)
    group = Group(np.zeros(sessions), 1.0, growth, np.zeros(sessions, dtype=np.int64), policy, growth)
    most = sessions * -(-(2 * window + growth) // pool.block_size)
    held = [blocks_at(group, t, pool.block_size) for t in range(8 * window // growth + 8)]
    assert max(held) <= most
    assert (crossing(pool, [group]) is not None) == (max(held) > pool.usable)


def test_the_papers_stall_is_in_frame_22_where_a_straight_line_says_24() -> None:
    group = Group(np.zeros(4), 1.0, 13, np.zeros(4, dtype=np.int64))
    assert crossing(Pool(40, 32), [group]) == pytest.approx(23.0)
    straight = 39 * 32 / (4 * 13)
    assert straight == pytest.approx(24.0)


def test_the_h200_run_of_64_sessions_stalls_within_2_percent_of_the_22_4_seconds_seen() -> None:
    # that client sent the first frame of a session at once
    starts = 0.618034 * np.arange(64) % 1.0 - 1.0
    group = Group(starts, 1.0, 28, np.zeros(64, dtype=np.int64))
    assert crossing(Pool(2500, 16), [group]) == pytest.approx(22.4, rel=0.02)


def test_a_pool_too_small_for_what_sessions_hold_already_is_full_at_once() -> None:
    group = Group(np.zeros(3), 1.0, 5, np.full(3, 100))
    assert crossing(Pool(10, 16), [group]) == 0.0


@given(st.integers(1, 50), st.integers(1, 40), st.integers(64, 4096), st.integers(0, 60))
def test_positions_end_with_the_first_input_that_does_not_fit(
    tokens_in: int, growth: int, last: int, held: int
) -> None:
    group = Group(np.array([0.25]), 0.5, growth, np.array([held]))
    frame, tokens = 1, held
    while tokens + tokens_in <= last:
        tokens += growth
        frame += 1
    assert positions_end(group, last, tokens_in) == pytest.approx(0.25 + frame * 0.5)


def test_the_engine_that_died_at_frame_19_is_dated_to_it() -> None:
    group = Group(np.zeros(2), 1.0, 13, np.zeros(2, dtype=np.int64))
    assert positions_end(group, 256, 10) == pytest.approx(20.0)


@given(POOLS, st.integers(1, 200), st.integers(1, 40))
def test_the_most_sessions_that_last_a_time_last_it_and_one_more_does_not(pool: Pool, frames: int, growth: int) -> None:
    count = sessions_for(pool, float(frames), 1.0, growth)
    for sessions, lasts in ((count, True), (count + 1, False)):
        if sessions:
            group = Group(np.zeros(sessions), 1.0, growth, np.zeros(sessions, dtype=np.int64))
            time = crossing(pool, [group])
            assert (time is None or time > frames) == lasts


def test_the_sessions_a_window_makes_safe_are_those_the_pool_holds_at_their_peak() -> None:
    pool, policy = Pool(45_902, 16), parse_policy("window:1024+16", 16)
    count = most_sessions(pool, policy, 64)

    def held(sessions: int) -> Group:
        return Group(np.zeros(sessions), 1.0, 30, np.zeros(sessions, dtype=np.int64), policy, 64)

    assert impossible(pool, [held(count)])
    assert not impossible(pool, [held(count + 1)])


def test_an_unbounded_group_is_never_impossible() -> None:
    assert not impossible(Pool(10**6, 16), [Group(np.zeros(1), 1.0, 1, np.zeros(1, dtype=np.int64), FREE)])
