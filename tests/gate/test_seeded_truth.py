"""Deployments whose true change is known, compared again and again."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec.structs import replace

from metrobench.gate.findings import Answer, Finding
from metrobench.gate.judge import judge
from metrobench.gate.rules import Policy, default_policy, parse_policy
from metrobench.gate.samples import Sample
from tests.gate.simulated import alternating, several

CAPACITY = 150.0
DAY = 0.03
"""Scatter of the machine from day to day, log capacity."""
LOOKS = 5
"""Times that somebody follows the recommendation."""
FINE = parse_policy({"mscs": {"max_drop": "4%"}}, "a test")


def _answer(policy: Policy, before: list[Sample], now: list[Sample]) -> Finding:
    return judge(policy, before, now, ()).findings[0]


def _first(loss: float, seed: int) -> Answer:
    """One current search against a baseline of three."""
    rng = np.random.default_rng(seed)
    before, now = several(CAPACITY, 3, rng, DAY), several(CAPACITY * (1.0 - loss), 1, rng, DAY)
    return _answer(default_policy(), before, now).answer


def _followed(loss: float, seed: int) -> Answer:
    """One search against one, then as many more as the gate recommends."""
    rng = np.random.default_rng(seed)
    before, now = several(CAPACITY, 1, rng, DAY), several(CAPACITY * (1.0 - loss), 1, rng, DAY)
    for _ in range(LOOKS):
        found = _answer(default_policy(), before, now)
        if found.more is None:
            break
        before += several(CAPACITY, found.more.baseline, rng, DAY)
        now += several(CAPACITY * (1.0 - loss), found.more.current, rng, DAY)
    return _answer(default_policy(), before, now).answer


def _paired(loss: float, seed: int) -> Answer:
    """Three pairs measured alternately, then as many more as the gate recommends."""
    rng = np.random.default_rng(seed)
    before, now = alternating(CAPACITY, CAPACITY * (1.0 - loss), 3, rng, DAY)
    for _ in range(LOOKS):
        found = _answer(FINE, before, now)
        if found.more is None:
            break
        further = alternating(CAPACITY, CAPACITY * (1.0 - loss), found.more.current, rng, DAY)
        for side, new in zip((before, now), further, strict=True):
            for each in new:
                assert each.pair
                side.append(replace(each, pair=replace(each.pair, place=len(side) + 1)))
    return _answer(FINE, before, now).answer


def test_an_unchanged_deployment_fails_in_at_most_2_of_100_of_1000_comparisons() -> None:
    seen = Counter(_first(0.0, seed) for seed in range(1000))
    assert seen[Answer.FAIL] <= 20
    assert seen[Answer.PASS] >= 650


def test_a_lost_quarter_passes_in_at_most_5_of_100_comparisons() -> None:
    seen = Counter(_first(0.25, seed) for seed in range(300))
    assert seen[Answer.PASS] <= 15


def test_a_lost_quarter_fails_in_9_of_10_with_the_recommended_number_of_records() -> None:
    seen = Counter(_followed(0.25, seed) for seed in range(300))
    assert seen[Answer.FAIL] >= 270
    assert seen[Answer.PASS] <= 15


def test_an_unchanged_deployment_passes_with_the_recommended_number_of_records() -> None:
    seen = Counter(_followed(0.0, seed) for seed in range(100))
    assert seen[Answer.PASS] >= 90
    assert seen[Answer.FAIL] <= 2


def test_alternating_searches_find_a_loss_of_8_in_100() -> None:
    seen = Counter(_paired(0.08, seed) for seed in range(100))
    assert seen[Answer.FAIL] >= 90
    assert seen[Answer.PASS] <= 5


def test_alternating_searches_of_an_unchanged_deployment_hardly_ever_fail() -> None:
    seen = Counter(_paired(0.0, seed) for seed in range(150))
    assert seen[Answer.FAIL] <= 3
    assert seen[Answer.PASS] >= 120


def test_a_loss_just_at_the_limit_hardly_ever_passes() -> None:
    seen = Counter(_first(0.15, seed) for seed in range(200))
    assert seen[Answer.PASS] <= 16
