from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.measure.client import histogram_quantile, judge_client
from metrobench.measure.facts import LAG_EDGES
from metrobench.measure.frames import build_table
from metrobench.measure.plan import plan_run
from tests.virtual_servers import facts, ready_times


def histogram(lags: list[float]) -> np.ndarray:
    place = np.clip(np.searchsorted(LAG_EDGES, lags, side="right") - 1, 0, len(LAG_EDGES) - 2)
    return np.bincount(place, minlength=len(LAG_EDGES) - 1)


@given(st.lists(st.floats(0.0, 99.0), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_histogram_quantile_is_the_upper_edge_of_the_bin_of_the_true_one(lags: list[float], q: float) -> None:
    true = float(np.quantile(lags, q, method="inverted_cdf"))
    found = histogram_quantile(histogram(lags), q)
    assert found is not None
    below = LAG_EDGES[np.searchsorted(LAG_EDGES, found) - 1]
    assert below - 1e-12 <= true <= found + 1e-12


def test_an_empty_histogram_has_no_quantile() -> None:
    assert histogram_quantile(np.zeros(0, dtype=np.int64), 0.99) is None
    assert histogram_quantile(np.zeros(300, dtype=np.int64), 0.99) is None


@pytest.mark.parametrize(
    ("budget", "lag", "lagging"), [(1.0, 0.0095, False), (1.0, 0.012, True), (0.1, 0.0045, False), (0.1, 0.0055, True)]
)
def test_lag_p99_above_5_ms_or_1_percent_of_the_budget_is_lagging(budget: float, lag: float, lagging: bool) -> None:
    plan = plan_run(sessions=10, budget=budget, unit=1.0, q=0.01)
    ready = ready_times(plan)
    recorded = facts(plan, ready, ready + 0.05, lag=lag, stalls=[(3.0, 3.25), (9.0, 9.1)])
    table = build_table(recorded, plan)
    client = judge_client(recorded, table, table.span)
    assert client.lagging is lagging
    assert (client.stalls, client.stall_longest) == (2, pytest.approx(0.25))
    assert client.lateness_max >= lag - 1e-9


def test_one_late_chunk_in_a_hundred_is_what_the_limit_is_about() -> None:
    assert histogram_quantile(histogram([0.0001] * 990 + [0.5] * 10), 0.99) == pytest.approx(0.0002)
    assert histogram_quantile(histogram([0.0001] * 980 + [0.5] * 20), 0.99) > 0.4
