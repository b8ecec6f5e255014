"""Telemetry in a few numbers."""

from __future__ import annotations

import pytest

from metrobench.measure.telemetry import cpu_shares, idle_share, mean, peak, since
from tests.report.made import plan, telemetry


def test_cpu_shares_are_means_over_the_measured_span() -> None:
    shares = cpu_shares(telemetry(60.0), plan())
    assert shares["engine"] == pytest.approx(0.8)
    assert shares["front"] == pytest.approx(0.3)
    assert shares["client"] == pytest.approx(0.2, abs=0.02)
    assert shares["others"] == pytest.approx(0.05, abs=0.02)


def test_an_engine_is_idle_in_the_samples_in_which_nothing_runs() -> None:
    begin = plan().cut_frames * plan().unit
    outside = [{"t": begin - 0.5, "running": 0.0}]
    rows = [{"t": begin + place, "running": float(place % 4)} for place in range(8)]
    assert idle_share([*outside, *rows], plan()) == 0.25
    assert idle_share(outside, plan()) is None


def test_others_need_every_process_to_be_visible() -> None:
    rows = [row | {"engine_cpu": None} for row in telemetry(60.0)]
    assert set(cpu_shares(rows, plan())) == {"front", "client", "parent"}


def test_times_count_from_the_start_of_the_schedule() -> None:
    rows = [{"t": 100.0}, {"t": 100.5}]
    assert since(rows, 99.0) == [{"t": 1.0}, {"t": 1.5}]
    assert since(rows, None) == [{"t": 0.0}, {"t": 0.5}]


def test_what_was_never_seen_has_no_peak_and_no_mean() -> None:
    assert peak([{"kv_usage": None}], "kv_usage") is None
    assert mean([], "steal") is None
    assert peak([{"kv_usage": 0.2}, {"kv_usage": 0.1}], "kv_usage") == 0.2
