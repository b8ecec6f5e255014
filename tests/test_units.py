"""Units: what people type becomes seconds and shares, or a clear refusal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.units import counted, memory, parse_duration, parse_rate, parse_slo, percent, seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("80ms", 0.08), ("1s", 1.0), ("5m", 300.0), ("1m30s", 90.0), ("1.5 s", 1.5), ("2h", 7200.0), (".5s", 0.5)],
)
def test_a_duration_is_a_number_with_a_unit(text: str, value: float) -> None:
    assert parse_duration(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "-1s", "1parsec", "1", "s", "1s2", "nan s", "inf", "1e3s", "99999h", "1 s 2", "١s"]
)
def test_anything_else_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_duration(text, name="budget")
    assert "budget" in raised.value.message
    assert "\n" not in raised.value.message + raised.value.hint


@pytest.mark.parametrize(("text", "value"), [("1%", 0.01), ("0.01", 0.01), ("0.5 %", 0.005), ("50%", 0.5)])
def test_a_rate_is_a_share(text: str, value: float) -> None:
    assert parse_rate(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["0", "100%", "1", "-1%", "many", "", "nan", "2"])
def test_a_rate_outside_0_to_1_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rate(text)


def test_an_objective_is_a_quantile_and_a_limit() -> None:
    assert parse_slo("p99<=1s") == (pytest.approx(0.99), 1.0)
    assert parse_slo("p99.9 < 250ms") == (pytest.approx(0.999), 0.25)


@pytest.mark.parametrize("text", ["p99", "p100<=1s", "99<=1s", "p99>=1s", "p99<=1parsec", "p0<=1s"])
def test_another_objective_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_slo(text)


@given(st.floats(min_value=1e-4, max_value=80_000.0))
def test_a_printed_duration_is_near_its_value(value: float) -> None:
    words = seconds(value).split()
    scale = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
    back = sum(float(number) * scale[unit] for number, unit in zip(words[::2], words[1::2], strict=True))
    assert math.isclose(back, value, rel_tol=0.06, abs_tol=1e-4)


def test_shares_are_printed_in_percent() -> None:
    assert percent(0.0032) == "0.3 %"
    assert percent(0.31, 0) == "31 %"


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (512, "512 B"), (144 * 1024, "144 KiB"), (93.75 * 2**20, "93.8 MiB"), (1500 * 2**20, "1.46 GiB")],
)
def test_memory_is_printed_in_binary_units(size: float, shown: str) -> None:
    assert memory(size) == shown


def test_what_is_counted_has_its_name() -> None:
    assert counted("Missed frames: a frame of framework", "turn") == "Missed turns: a turn of framework"
    assert counted("3 frames", "frame") == "3 frames"
