"""KVWINDOW: what it accepts, what it says otherwise, what becomes of it on blocks."""

from __future__ import annotations

import pytest

from metrobench.kvwindow import Settings, Window, from_environment, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024", Settings(1024)),
        ("1024+16", Settings(1024, 16)),
        ("window:1024+16", Settings(1024, 16)),
        ("1024+0", Settings(1024)),
        (" 1024+16 , align=64 ", Settings(1024, 16, 64)),
        ("100+5,exact", Settings(100, 5, exact=True)),
        ("100+5,exact,align=256", Settings(100, 5, 256, exact=True)),
    ],
)
def test_reads_a_window(text: str, expected: Settings) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["x", "1024-16", "+16", "1024+", "1024+16,fast", "1024,align=", "1024,align=-1", "1e3"]
)
def test_says_what_it_reads(text: str) -> None:
    with pytest.raises(ValueError, match=r"KVWINDOW.*for example KVWINDOW=1024\+16"):
        parse(text)


@pytest.mark.parametrize("text", ["0", "0+16", "9999999", "16+9999999", "16,align=9999999"])
def test_refuses_figures_out_of_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse(text)


def test_is_off_without_the_variable() -> None:
    assert from_environment({}) is None
    assert from_environment({"KVWINDOW": "  "}) is None
    assert from_environment({"KVWINDOW": "64+8"}) == Settings(64, 8)


def test_rounds_up_to_blocks() -> None:
    assert Settings(1000, 16).on(32) == Window(1024, 32, 32)
    assert Settings(1024, 0).on(16) == Window(1024, 0, 16)
    assert Settings(1, 1, align=33).on(32) == Window(32, 32, 64)


def test_exact_keeps_window_and_sinks() -> None:
    assert Settings(1000, 5, exact=True).on(32) == Window(1000, 5, 128, exact=True)


def test_reads_back_as_it_prints() -> None:
    assert str(Settings(1000, 16).on(32)) == "window:1024+32 align 32"
    assert str(Settings(1000, 5, exact=True).on(32)) == "window:1000+5 exact"
