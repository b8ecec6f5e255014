"""The first guess: two closed loops give the sessions at which the slowest frames take the budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.guess import Cycle, edge


def _cycle(sessions: int, start: float, each: float, spread: float) -> Cycle:
    mean = start + each * sessions
    return Cycle(sessions, mean, mean * spread)


def test_with_equal_frames_it_is_the_throughput_limit() -> None:
    small, large = _cycle(16, 0.02, 0.004, 1.0), _cycle(64, 0.02, 0.004, 1.0)
    assert edge(small, large, 1.0) == 245


def test_with_slow_frames_their_latency_decides() -> None:
    """Tail = 2.5 x mean reaches 1 s where the mean is 0.4 s: 80 in flight are 200 sessions of one frame a second."""
    small, large = _cycle(16, 0.0, 0.005, 2.5), _cycle(64, 0.0, 0.005, 2.5)
    assert edge(small, large, 1.0) == 200


@given(
    small=st.integers(1, 64),
    apart=st.integers(0, 500),
    start=st.floats(0.0, 2.0),
    each=st.floats(1e-6, 0.1),
    spread=st.floats(1.0, 20.0),
    budget=st.floats(0.02, 10.0),
)
def test_whatever_was_measured_it_is_a_number_of_sessions(
    small: int, apart: int, start: float, each: float, spread: float, budget: float
) -> None:
    guess = edge(_cycle(small, start, each, spread), _cycle(small + apart, start, each, spread), budget)
    assert guess >= 0


@pytest.mark.parametrize("tail", [0.5, 0.1])
def test_a_tail_that_does_not_grow_falls_back_to_throughput(tail: float) -> None:
    assert edge(Cycle(16, 0.1, 0.5), Cycle(64, 0.2, tail), 1.0) == 320
