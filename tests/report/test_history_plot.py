"""The axis of dates of a history, from seconds to decades."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.report.html import plots

START = datetime(2026, 11, 1, 9, tzinfo=UTC)


def ticks(moments: list[datetime]) -> int:
    """How many dates the axis names; a warning of matplotlib is an error."""
    canvas = plots.history(moments, [1.0] * len(moments), [(len(moments), 1.0)], "mscs", str)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = canvas.axes[0].get_xlim()
        places = canvas.axes[0].xaxis.get_majorticklocs()
    return sum(low <= place <= high for place in places)


@pytest.mark.parametrize("days", [0.0, 1e-4, 3e-3, 0.04, 0.17, 0.7, 4.0, 30.0, 140.0, 400.0, 1500.0, 7000.0])
def test_records_of_any_age_get_a_few_dates(days: float) -> None:
    assert 1 <= ticks([START, START + timedelta(days=days)]) <= 8


@given(st.floats(1.0, 20 * 365 * 86_400.0))
def test_no_stretch_of_time_is_without_an_interval(length: float) -> None:
    assert 1 <= ticks([START, START + timedelta(seconds=length)]) <= 9
