"""What a batch of trials says beside its incidence, with known truth."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metrobench.predict.odds import Foreseen, Odds
from metrobench.records import read_record
from metrobench.report import collapse_table
from tests.report.made import batch


def tenths(*last: float | None) -> dict[str, Any]:
    """Of trials with these medians in their last tenth, 10 ms in the first."""
    drifts = [{"first_tenth_p50": 0.01, "last_tenth_p50": value} for value in last]
    return collapse_table._tenths([SimpleNamespace(verdict={"drift": drift}) for drift in drifts])  # type: ignore[misc]


@pytest.mark.parametrize(
    ("last", "median", "answered"),
    [
        ((0.01, 0.03, 0.02), 0.02, 3),
        ((0.01, None, 0.03), 0.03, 2),  # the unanswered one is the slowest
        ((0.01, None, None), None, 1),
        ((None,), None, 0),
    ],
)
def test_the_median_trial_counts_and_an_unanswered_one_is_the_slowest(
    last: tuple[float | None, ...], median: float | None, answered: int
) -> None:
    found = tenths(*last)
    assert (found["trials"], found["first"], found["last"], found["last_answered"]) == (
        len(last),
        0.01,
        median,
        answered,
    )


def test_trials_of_older_versions_say_nothing_of_tenths() -> None:
    older = SimpleNamespace(verdict={"drift": {"early_p50": None}})
    assert collapse_table._tenths([older])["trials"] == 0  # type: ignore[list-item]


def test_a_batch_that_ended_before_the_first_trial_of_a_policy_is_told(tmp_path: Path) -> None:
    folder = batch(tmp_path, trials=1, sessions=16, span=30.0)
    record = read_record(folder)
    record.setting["kv"] = "unbounded,window:128"
    collapse_table.conclude(record, folder, {})
    assert "0 of 0" in collapse_table.text(record)


def test_the_words_of_a_batch_hold_its_tenths(tmp_path: Path) -> None:
    record = read_record(batch(tmp_path, trials=5, sessions=16, span=30.0))  # the second and the fourth fall silent
    assert record.result is not None
    found = record.result["tenths"]["unbounded"]
    assert found["first"] == pytest.approx(0.1, rel=0.1)
    assert found["last"] == pytest.approx(0.1, rel=0.1)
    assert (found["last_answered"], found["trials"]) == (3, 5)
    words = " ".join(collapse_table.text(record).split())
    assert "(in 3 of 5 trials more than half of its frames were answered)" in words


def test_each_trial_by_its_own_audio_stands_beside_the_probability(tmp_path: Path) -> None:
    folder = batch(tmp_path, trials=4, sessions=16, span=30.0)
    record = read_record(folder)
    told = Odds(0.5, 20.0, 20.0, "200 talk patterns drawn", Foreseen(trials=4, full=2, agree=3))
    collapse_table.conclude(record, folder, {"unbounded": told})
    words = " ".join(collapse_table.text(record).split())
    assert "By the audio of each trial itself 2 of 4 fill it by then; 3 went as told" in words
