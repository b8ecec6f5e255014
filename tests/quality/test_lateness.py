"""The client's own lateness is known of every stage, in plain numbers that a record can hold."""

from __future__ import annotations

import msgspec
import numpy as np

from metrobench.measure.facts import FRAME_DTYPE, RunFacts
from metrobench.quality.spoken.probe import lateness


def facts(lags: list[float], stalls: list[tuple[float, float]]) -> RunFacts:
    frames = np.zeros(len(lags), dtype=FRAME_DTYPE)
    frames["lag_max"] = lags
    return RunFacts(frames, [], budget=1.0, unit=1.0, first_ready=1.0, stalls=np.array(stalls).reshape(-1, 2))


def test_it_is_the_largest_lag_or_stall_since_the_schedule_began() -> None:
    assert lateness(facts([0.002, float("nan"), 0.011], [(-3.0, -1.0), (2.0, 2.5)])) == 0.5
    assert lateness(facts([0.002, 0.75], [(2.0, 2.5)])) == 0.75


def test_of_a_stage_that_sent_nothing_it_is_unknown() -> None:
    assert lateness(facts([], [])) is None


def test_it_can_be_written() -> None:
    assert msgspec.json.encode([lateness(facts([0.25], [])), lateness(facts([], [(1.0, 1.5)]))]) == b"[0.25,0.5]"
