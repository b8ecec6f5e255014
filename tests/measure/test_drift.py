from __future__ import annotations

import numpy as np
import pytest

from metrobench.measure.drift import Drift, drift, mann_kendall
from metrobench.measure.frames import build_table
from metrobench.measure.plan import Plan, plan_run
from tests.virtual_servers import facts, ready_times


def measure(plan: Plan, per_second: float, start: float = 0.1) -> Drift:
    ready = ready_times(plan)
    age = ready - (ready[:, :1] - plan.unit)
    noise = 0.0005 * np.random.default_rng(7).standard_normal(ready.shape)
    return drift(build_table(facts(plan, ready, ready + start + per_second * age + noise), plan))


@pytest.fixture
def soak() -> Plan:
    return plan_run(sessions=8, budget=1.0, unit=1.0, q=0.01, span=300.0)


def test_slope_trend_and_columns_of_a_growing_run(soak: Plan) -> None:
    found = measure(soak, 0.002)
    assert found.slope is not None
    assert found.slope.lower <= 0.002 <= found.slope.upper
    assert found.slope.value == pytest.approx(0.002, rel=0.02)
    assert found.trend_p is not None and found.trend_p < 1e-6
    assert found.not_growing is False
    assert found.early_p50 == pytest.approx(0.1 + 0.002 * 15.5, abs=0.003)
    assert found.late_p50 == pytest.approx(0.1 + 0.002 * 285.5, abs=0.003)


def test_a_flat_run_of_5_min_is_not_growing(soak: Plan) -> None:
    found = measure(soak, 0.0)
    assert found.not_growing is True
    assert found.absent == {}


def test_growth_of_10_ms_a_minute_is_the_limit_at_a_budget_of_1_s(soak: Plan) -> None:
    assert measure(soak, 0.008 / 60.0).not_growing is True
    assert measure(soak, 0.012 / 60.0).not_growing is False


def test_a_short_run_has_no_late_column_and_no_statement_on_growth() -> None:
    found = measure(plan_run(sessions=8, budget=1.0, unit=1.0, q=0.01), 0.0)
    assert (found.late_p50, found.not_growing) == (None, None)
    assert found.slope is not None
    assert set(found.absent) == {"late_p50", "early_p50", "not_growing"}


def test_the_first_and_the_last_tenth_of_a_short_run_stand_for_the_columns() -> None:
    found = measure(plan_run(sessions=8, budget=1.0, unit=1.0, q=0.01, span=35.0), 0.002)  # 40 s with what is cut
    assert found.first_tenth_p50 == pytest.approx(0.1 + 0.002 * 2.5, abs=0.002)
    assert found.last_tenth_p50 == pytest.approx(0.1 + 0.002 * 38.5, abs=0.002)


def test_a_last_tenth_that_nobody_answered_has_no_median() -> None:
    plan = plan_run(sessions=8, budget=1.0, unit=1.0, q=0.01, span=35.0)
    ready = ready_times(plan)
    age = ready - (ready[:, :1] - plan.unit)
    found = drift(build_table(facts(plan, ready, np.where(age < 30.0, ready + 0.1, np.nan)), plan))
    assert found.first_tenth_p50 == pytest.approx(0.1)
    assert found.last_tenth_p50 is None
    assert "last_tenth_p50" in found.absent


def test_under_8_blocks_there_is_no_drift() -> None:
    plan = plan_run(sessions=8, budget=1.0, unit=1.0, q=0.01)
    ready = ready_times(plan)
    found = drift(build_table(facts(plan, ready, ready + 0.1, t_stop=12.0), plan))
    assert found.blocks < 8
    assert (found.slope, found.trend_p) == (None, None)
    assert "slope" in found.absent


def test_mann_kendall_by_hand() -> None:
    """n = 5, rising: S = 10, variance 50/3, z = 9 / 4.0825, p = 0.0275."""
    assert mann_kendall(np.arange(5.0)) == pytest.approx(0.0275, abs=1e-4)
    assert mann_kendall(np.ones(9)) == 1.0
