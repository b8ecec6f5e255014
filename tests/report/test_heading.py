"""The lines above a measurement name audio that is not the shipped one as it is."""

from __future__ import annotations

from metrobench.report.terminal import _audio


def test_the_shipped_audio_is_not_mentioned() -> None:
    assert _audio({}) == []
    assert _audio({"audio": "default", "language": None, "noise": None, "gain_db": 0.0, "talk": "paired"}) == []


def test_other_audio_is_named() -> None:
    setting = {"audio": "mine", "language": "es", "noise": "10dB:pink", "gain_db": -6.0, "talk": "dialogue"}
    assert _audio(setting) == ["audio mine", "language es", "noise 10dB:pink", "gain -6 dB", "talk dialogue"]
