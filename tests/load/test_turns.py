from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.load.turns import Player, Turns

READY = [1.0, 2.0, 3.0]


def test_an_answer_is_the_newest_turn_s_whose_speech_is_over_when_it_begins() -> None:
    turns = Turns(READY, 0.5)
    assert turns.newest(1.4) == -1
    turns.begin(2.6)
    assert turns.current(9.0) == 1
    turns.end()
    assert turns.current(9.0) == 2


def test_output_without_a_beginning_begins_an_answer() -> None:
    turns = Turns(READY, 0.0)
    assert turns.current(1.1) == 0
    assert turns.current(2.1) == 0


def test_speech_that_arrives_before_it_is_needed_plays_without_a_gap() -> None:
    player = Player()
    for t in (0.0, 0.1, 0.25):
        player.hear(t, 0.2)
    assert player.gap == 0.0 and not player.broken


def test_gaps_add_up() -> None:
    player = Player()
    for t in (0.0, 0.26, 0.52):
        player.hear(t, 0.2)
    assert player.gap == pytest.approx(0.12)
    assert player.broken


@given(st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(0.0, 5.0)), max_size=30))
def test_the_gap_is_the_time_that_nothing_played(pieces: list[tuple[float, float]]) -> None:
    player, t = Player(), 0.0
    for wait, length in pieces:
        t += wait
        player.hear(t, length)
    waited, spoken = sum(wait for wait, _ in pieces[1:]), sum(length for _, length in pieces[:-1])
    assert player.gap >= max(0.0, waited - spoken) - 1e-9
    assert player.gap <= waited + 1e-9
