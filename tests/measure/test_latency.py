from __future__ import annotations

import numpy as np
import pytest

from metrobench.measure.frames import build_table
from metrobench.measure.latency import Latency, latency
from metrobench.measure.plan import Plan, plan_run
from tests.virtual_servers import facts, ready_times


@pytest.fixture
def plan() -> Plan:
    return plan_run(sessions=20, budget=1.0, unit=1.0, q=0.01)


def measure(plan: Plan, ready: np.ndarray, done: np.ndarray, **changes) -> Latency:
    return latency(build_table(facts(plan, ready, done, **changes), plan).span)


def test_quantiles_and_jitter_are_those_of_numpy(plan: Plan) -> None:
    ready = ready_times(plan)
    waits = np.random.default_rng(3).uniform(0.1, 0.9, ready.shape)
    found = measure(plan, ready, ready + waits)
    span = waits[:, plan.cut_frames : plan.cut_frames + plan.frames]
    assert found.p50 == pytest.approx(np.quantile(span, 0.5))
    assert found.p99 == pytest.approx(np.quantile(span, 0.99))
    assert found.jitter == pytest.approx(found.p99 - found.p50)
    assert found.largest == pytest.approx(span.max())
    assert found.absent == {}


def test_interval_deviation_is_per_session(plan: Plan) -> None:
    ready = ready_times(plan)
    waits = np.full(ready.shape, 0.2)
    waits[7, ::2] += 0.1
    found = measure(plan, ready, ready + waits)
    gaps = np.diff((ready + waits)[7, plan.cut_frames : plan.cut_frames + plan.frames])
    assert found.interval_sd == pytest.approx(0.0, abs=1e-9)
    assert found.interval_sd_worst == pytest.approx(gaps.std(ddof=1))


def test_frames_with_no_answer_rank_above_all_others(plan: Plan) -> None:
    ready = ready_times(plan)
    done = ready + 0.2
    done[:1, :] = np.nan
    found = measure(plan, ready, done)
    assert found.p50 == pytest.approx(0.2)
    assert found.p99 is None
    assert found.absent["p99"] == "it falls among frames with no answer"
    assert "jitter" in found.absent


def test_a_small_sample_has_no_p99() -> None:
    small = plan_run(sessions=5, budget=1.0, unit=1.0, q=0.5)
    ready = ready_times(small)
    found = measure(small, ready, ready + 0.2)
    assert small.planned == 75
    assert found.p50 == pytest.approx(0.2)
    assert found.p99 is None and found.absent["p99"] == "75 frames; 100 are needed"


def test_with_no_frame_everything_is_absent_with_a_reason(plan: Plan) -> None:
    ready = ready_times(plan)
    found = measure(plan, ready, ready + 0.2, t_stop=0.0)
    for name in ("p50", "p99", "largest", "jitter", "interval_sd", "interval_sd_worst", "first_p50", "first_p99"):
        assert getattr(found, name) is None
        assert found.absent[name]
