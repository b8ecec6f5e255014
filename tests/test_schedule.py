from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.schedule import last_chunk, make_ring, make_schedule, offset_of, phases
from metrobench.units import CHUNK

seeds = st.integers(0, 2**63 - 1)


def test_phase_is_budget_times_fraction_of_golden_steps() -> None:
    assert phases(3, 2.0, 0.5) == pytest.approx([1.0, 2.0 * 0.118034, 2.0 * 0.736068])


def test_offset_comes_from_the_seed() -> None:
    assert offset_of(7) == offset_of(7)
    assert offset_of(7) != offset_of(8)
    assert all(0.0 <= offset_of(seed) < 1.0 for seed in range(100))


@pytest.mark.parametrize("sessions", [10, 25, 50, 64, 200])
def test_phases_spread_over_the_budget_and_over_the_tick(sessions: int) -> None:
    spread = np.sort(phases(sessions, 1.0, 0.3))
    gaps = np.diff(np.append(spread, spread[0] + 1.0))
    assert gaps.max() < 3.0 / sessions
    in_tick = np.sort(phases(sessions, 1.0, 0.3) % CHUNK)
    tick_gaps = np.diff(np.append(in_tick, in_tick[0] + CHUNK))
    assert tick_gaps.max() < 0.5 * CHUNK


def test_chunk_is_due_at_its_end() -> None:
    schedule = make_schedule(4, 1.0, 1.0, 1.0, seed=1)
    assert schedule.chunk_due(2, 0) == pytest.approx(schedule.phases[2] + 0.020)
    assert schedule.chunk_due(2, 49) == pytest.approx(schedule.phases[2] + 1.0)


def test_frame_is_ready_with_the_chunk_that_brings_its_last_sample() -> None:
    schedule = make_schedule(2, 1.0, 0.08, 0.56, seed=1)
    assert schedule.frame_ready(1, 0) == pytest.approx(schedule.phases[1] + 0.56)
    assert schedule.frame_ready(1, 3) == pytest.approx(schedule.phases[1] + 0.56 + 3 * 0.08)


def test_look_ahead_that_is_no_whole_chunk_waits_for_the_next_chunk() -> None:
    assert last_chunk(0, 0.08, 0.565) == last_chunk(0, 0.08, 0.58) == 28
    assert last_chunk(0, 0.08, 0.56) == 27


def test_ready_table_agrees_with_single_frames() -> None:
    schedule = make_schedule(5, 0.5, 0.2, 0.3, seed=3)
    table = schedule.ready_table(7)
    assert table.shape == (7, 5)
    assert table[6, 4] == pytest.approx(schedule.frame_ready(4, 6))
    assert schedule.end_of(6) == pytest.approx(table[6].max())


@given(st.integers(1, 300), st.floats(0.02, 30.0), seeds)
def test_ring_gives_every_session_its_own_due_times(sessions: int, budget: float, seed: int) -> None:
    schedule = make_schedule(sessions, budget, 1.0, 1.0, seed)
    ring = make_ring(schedule)
    assert sorted(ring.order) == list(range(sessions))
    assert list(ring.offsets) == sorted(ring.offsets)
    assert ring.offsets[0] >= 0.0 and ring.offsets[-1] < CHUNK + 1e-9
    for slot in (0, sessions // 2, sessions - 1):
        due = (ring.starts[slot] + 9 + 1) * CHUNK + ring.offsets[slot]
        assert due == pytest.approx(schedule.chunk_due(ring.order[slot], 9))


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_times_must_be_positive_numbers(value: float) -> None:
    with pytest.raises(UsageError, match="budget"):
        make_schedule(1, value, 1.0, 1.0, 0)


def test_number_of_sessions_is_bounded() -> None:
    with pytest.raises(UsageError):
        phases(0, 1.0, 0.0)
    with pytest.raises(UsageError):
        phases(10**9, 1.0, 0.0)
