"""Telemetry in a few numbers."""

from __future__ import annotations

import pytest

from metrobench.measure.telemetry import cpu_shares, engine_latency, mean, peak, since
from tests.report.made import plan, telemetry


def test_cpu_shares_are_means_over_the_measured_span() -> None:
    shares = cpu_shares(telemetry(60.0), plan())
    assert shares["engine"] == pytest.approx(0.8)
    assert shares["front"] == pytest.approx(0.3)
    assert shares["client"] == pytest.approx(0.2, abs=0.02)
    assert shares["others"] == pytest.approx(0.05, abs=0.02)


def test_the_engine_s_part_of_a_frame_is_a_mean_over_the_frames_of_the_measured_span() -> None:
    begin = plan().cut_frames * plan().unit
    rows = [{"t": begin + place, "frames": 100.0 + 10 * place, "engine_seconds": 7.0 + 3 * place} for place in range(5)]
    before = [{"t": begin - 1, "frames": 0.0, "engine_seconds": 0.0}]
    assert engine_latency([*before, *rows], plan()) == pytest.approx(0.3)
    assert engine_latency(before, plan()) is None
    assert engine_latency([row | {"frames": 5.0} for row in rows], plan()) is None


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
