"""What must hold before a number is believed."""

from __future__ import annotations

import numpy as np
import pytest

from metrobench.quality import checks
from metrobench.quality.bands import Scores
from metrobench.quality.checks import Onset
from metrobench.quality.probe import Reply


def course(sessions: int, answers: int, right: float, after: float, step: float, seed: int = 0) -> Scores:
    """Answers every 30 tokens; a share `right` of them, from the age `step` on a share `after`."""
    random = np.random.default_rng(seed)
    age = np.tile(60 + 30 * np.arange(answers), sessions)
    session = np.repeat(np.arange(sessions), answers)
    value = (random.random(len(age)) < np.where(age < step, right, after)).astype(float)
    return Scores(session, age, value)


@pytest.mark.parametrize("step", [150, 300, 450])
def test_the_onset_is_found_where_it_is(step: int) -> None:
    found = checks.onset(course(12, 24, 0.85, 0.05, step, seed=1), course(12, 24, 0.85, 0.85, step, seed=2))
    assert found is not None
    assert found.lower - 30 <= step <= found.upper + 30
    assert abs(found.value - step) <= 60


def test_an_arm_that_loses_nothing_has_no_onset() -> None:
    full = course(12, 24, 0.85, 0.85, 0, seed=1)
    assert checks.onset(full, full) is None


def test_an_arm_that_differs_only_by_chance_has_no_onset() -> None:
    full, arm = (course(12, 24, 0.85, 0.85, 0, seed=seed) for seed in (1, 2))
    found = checks.onset(arm, full)
    assert found is None or found.upper - found.lower > 100


def test_a_wider_window_that_fails_later_moves_the_onset() -> None:
    near, far = checks.Onset(150, 140, 170), checks.Onset(300, 280, 330)
    assert checks.moves({128: near, 256: far}).state == checks.HELD
    assert checks.moves({128: far, 256: near}).state == checks.BROKEN
    assert checks.moves({128: near, 256: near}).state == checks.BROKEN


def test_a_wider_window_that_does_not_fail_in_time_is_no_fault() -> None:
    assert checks.moves({128: checks.Onset(150, 140, 170), 1024: None}).state == checks.HELD


def test_a_window_alone_that_loses_nothing_is_a_fault() -> None:
    assert checks.moves({128: None, 256: None}).state == checks.BROKEN


def test_without_a_window_alone_the_onset_is_not_tested() -> None:
    assert checks.moves({}).state == checks.OPEN


def reply(place: int, age: int, tokens: list[int]) -> Reply:
    return Reply(0, place, age, "q", "t", True, False, False, 0.0, tokens)


def test_a_token_that_differs_before_the_eviction_is_found() -> None:
    full = [reply(0, 50, [1, 2, 3]), reply(1, 80, [4, 5, 6])]
    arm = [reply(0, 50, [1, 9, 3]), reply(1, 80, [4, 5, 6])]
    assert checks.alike(full, {"window:64": (arm, 64)}).state == checks.BROKEN


def test_a_token_that_differs_after_the_eviction_is_allowed() -> None:
    full = [reply(0, 50, [1, 2, 3]), reply(1, 80, [4, 5, 6])]
    arm = [reply(0, 50, [1, 2, 3]), reply(1, 80, [9, 9, 9])]
    assert checks.alike(full, {"window:64": (arm, 64)}).state == checks.HELD


def test_the_first_token_after_the_eviction_may_differ_and_the_last_before_it_may_not() -> None:
    full = [reply(0, 62, [1, 2, 3, 4, 5])]  # the query at 64 predicts the fourth of them
    assert checks.alike(full, {"a": ([reply(0, 62, [1, 2, 3, 9, 9])], 64)}).state == checks.HELD
    assert checks.alike(full, {"a": ([reply(0, 62, [1, 2, 9, 4, 5])], 64)}).state == checks.BROKEN


def test_turns_that_stay_as_good_are_flat_and_those_that_fall_are_not() -> None:
    assert checks.flat(course(12, 24, 0.85, 0.85, 0, seed=3), 256).state == checks.HELD
    assert checks.flat(course(12, 24, 0.85, 0.45, 256, seed=3), 256).state == checks.BROKEN


def test_too_few_sessions_cannot_show_that_turns_are_flat() -> None:
    assert checks.flat(course(2, 10, 0.6, 0.6, 0, seed=8), 256).state == checks.BROKEN


def test_a_search_compares_only_windows_of_twice_the_width() -> None:
    near = {128: Onset(124.0, 124.0, 361.0), 192: Onset(212.0, 212.0, 274.0)}
    far = {128: Onset(124.0, 124.0, 180.0), 256: Onset(262.0, 240.0, 300.0)}
    assert checks.moves(near).state == checks.BROKEN
    assert checks.moves(near, must_lose=False).state == checks.OPEN
    assert checks.moves(far, must_lose=False).state == checks.HELD
    assert checks.moves({128: None, 256: None}).state == checks.BROKEN
    assert checks.moves({128: None, 256: None}, must_lose=False).state == checks.OPEN
    assert checks.moves({128: None, 256: far[256]}, must_lose=False).state == checks.BROKEN
