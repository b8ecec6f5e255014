from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metrobench.admission.workload import Workload, load_workload, timetable, workload_names
from metrobench.errors import UsageError

GOOD = 'name = "mine"\ntitle = "Mine."\n'


def table(workload: Workload, sessions: int = 50) -> object:
    return timetable(workload, sessions, rate=4.0, hold=20.0, budget=1.0, unit=1.0, join=1.0, seed=1)


@pytest.mark.parametrize("name", workload_names())
def test_every_shipped_workload_gives_a_timetable(name: str) -> None:
    workload = load_workload(name)
    assert workload.name == name and workload.title.endswith(".")
    assert len(table(workload)) == 50  # type: ignore[arg-type]


def test_the_workloads_of_the_documentation_are_shipped() -> None:
    asked = {"steady", "churn", "co-aging", "diurnal", "flash-crowd", "turn-taking", "mixed-budgets"}
    assert asked <= set(workload_names())


def test_a_file_of_ones_own_is_read_with_defaults(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    assert load_workload(str(file)).arrivals.process == "poisson"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[arrivals]\nprocess = 'bursts'", "arrivals.process = 'bursts' is none of poisson"),
        ("[arrivals]\nrate = 0.0", "arrivals.rate = 0 is outside"),
        ("[arrivals]\nrat = 1.0", "did you mean arrivals.rate?"),
        ("[arrivals]\nprofile = [[5.0, 1.0]]", "rising seconds that begin at 0"),
        ("[arrivals]\nprofile = [[0.0, 1.0], [9.0, 0.0]]", "would never come"),
        ("[arrivals]\nprofile = [[0.0, 0.0]]", "nobody would ever come"),
        ("[arrivals]\nprofile = [[0.0, 1.0]]\nprocess = 'at-once'", "no meaning"),
        ("[arrivals]\nperiod_s = 10.0", "needs an arrivals.profile"),
        ("[arrivals]\nprofile = [[0.0, 1.0], [9.0, 2.0]]\nperiod_s = 5.0", "must be after"),
        ("[holding]\ndistribution = 'uniform'", "holding.distribution"),
        ("[holding]\nmean_s = nan", "holding.mean_s"),
        ("[audio]\ntalk = 'shout'", "audio.talk"),
        ("[[budgets]]\nshare = 0.5\nbudget = 1.0", "must sum to 1"),
        ("[[budgets]]\nshare = 1.0\nbudget = 100.0", "budgets[0].budget"),
        ("full = 'yes'", "full: expected bool"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text + "\n" + GOOD if "=" in text.splitlines()[0] else GOOD + text)
    with pytest.raises(UsageError) as error:
        load_workload(str(file))
    assert words in f"{error.value.message} {error.value.hint}"


def test_a_name_that_is_almost_right_is_guessed() -> None:
    with pytest.raises(UsageError, match="unknown workload 'stedy'") as error:
        load_workload("stedy")
    assert "did you mean steady?" in error.value.hint


def test_mixed_budgets_give_each_session_its_own() -> None:
    found = table(load_workload("mixed-budgets"), 400)
    assert set(np.unique(found.budgets)) == {0.5, 1.0}  # type: ignore[attr-defined]


def test_a_run_that_would_last_for_days_is_refused() -> None:
    with pytest.raises(UsageError, match="would end after"):
        timetable(load_workload("steady"), 1000, rate=0.001, hold=60.0, budget=1.0, unit=1.0, join=1.0, seed=1)
