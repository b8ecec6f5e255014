from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.corpus.mix import (
    KINDS,
    Noise,
    amplify,
    decibels,
    make_noise,
    mix,
    pad,
    parse_noise,
    power,
    protect,
    speech_power,
)
from metrobench.errors import UsageError

RATE, CHUNK = 16_000, 320


def speech(seconds: float = 2.0, level: float = 0.1) -> np.ndarray:
    """Bursts of noise with pauses of equal length between them."""
    count = round(seconds * RATE)
    burst = np.random.default_rng(5).standard_normal(count) * level
    return (burst * (np.arange(count) // 6400 % 2 == 0)).astype(np.float32)


def noise(kind: str, count: int = 2 * RATE) -> np.ndarray:
    return make_noise(kind, count, RATE, [speech(), speech(1.0, 0.01)], np.random.default_rng(0))


@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_power_one_and_is_the_same_each_time(kind: str) -> None:
    made = noise(kind)
    assert made.dtype == np.float32 and len(made) == 2 * RATE
    assert power(made) == pytest.approx(1.0, rel=1e-3)
    assert np.array_equal(made, noise(kind))


@pytest.mark.parametrize(("kind", "slope"), [("white", 0.0), ("pink", -3.01)])
def test_colour_of_noise(kind: str, slope: float) -> None:
    spectrum = np.abs(np.fft.rfft(noise(kind, 10 * RATE))) ** 2
    hertz = np.fft.rfftfreq(10 * RATE, 1 / RATE)
    octaves = [spectrum[(hertz >= low) & (hertz < 2 * low)].mean() for low in (100, 200, 400, 800, 1600, 3200)]
    assert np.polyfit(range(6), 10 * np.log10(octaves), 1)[0] == pytest.approx(slope, abs=0.2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("snr", [-5.0, 0.0, 10.0, 30.0])
def test_noise_is_under_the_speech_by_the_ratio(kind: str, snr: float) -> None:
    clean = speech(level=0.02)
    under = mix(clean, noise(kind), snr, CHUNK) - clean
    assert decibels(speech_power(clean, CHUNK)) - decibels(power(under)) == pytest.approx(snr, abs=0.1)


def test_the_ratio_stays_where_the_mixture_had_to_be_turned_down() -> None:
    clean = speech(level=0.5)
    mixed = mix(clean, noise("white"), 0.0, CHUNK)
    assert np.abs(mixed).max() <= 1.0
    factor = float(np.dot(mixed, clean) / np.dot(clean, clean))
    assert factor < 0.9
    assert power(mixed - factor * clean) / (factor**2 * speech_power(clean, CHUNK)) == pytest.approx(1.0, rel=0.02)


def test_silence_stays_silence() -> None:
    assert not mix(np.zeros(1000, np.float32), noise("white"), 10.0, CHUNK).any()


def test_pauses_do_not_count_as_speech() -> None:
    assert decibels(speech_power(speech(), CHUNK)) == pytest.approx(-20.0, abs=0.3)
    assert decibels(power(speech())) < -22.0


@given(st.floats(1e-4, 0.9), st.integers(1, 5000))
def test_speech_power_of_a_steady_sound_is_its_power(level: float, chunks: int) -> None:
    steady = np.tile(np.array([level, -level], np.float32), chunks * CHUNK // 2)[: 200 * CHUNK]
    assert speech_power(steady, CHUNK) == pytest.approx(level**2, rel=1e-4)


@given(st.floats(-40, 40), st.integers(0, 100))
def test_gain_never_clips(gain: float, seed: int) -> None:
    samples = np.random.default_rng(seed).uniform(-1, 1, 500).astype(np.float32)
    louder = amplify(samples, gain)
    assert np.abs(louder).max() <= 1.0
    expected = samples * 10 ** (gain / 20)
    if np.abs(expected).max() <= 1.0:
        assert np.allclose(louder, expected, rtol=1e-4)
    else:
        assert np.abs(louder).max() == pytest.approx(0.97, rel=1e-4)


def test_what_does_not_clip_is_left_alone() -> None:
    samples = np.array([1.0, -1.0, 0.5], np.float32)
    assert protect(samples) is samples


@given(st.integers(0, 1000), st.integers(1, 400))
def test_padding_reaches_the_next_multiple_with_silence(count: int, multiple: int) -> None:
    samples = np.ones(count, np.int16)
    padded = pad(samples, multiple)
    assert padded.dtype == np.int16
    assert len(padded) % multiple == 0 and 0 <= len(padded) - count < multiple
    assert padded[:count].all() and not padded[count:].any()


def test_babble_of_silence_is_refused() -> None:
    with pytest.raises(UsageError, match="silent"):
        make_noise("babble", 1000, RATE, [np.zeros(1000, np.float32)], np.random.default_rng(0))


def test_babble_holds_every_voice() -> None:
    low, high = (np.sin(2 * np.pi * hertz * np.arange(RATE) / RATE).astype(np.float32) for hertz in (300, 2000))
    made = make_noise("babble", 4 * RATE, RATE, [low, high * 0.01], np.random.default_rng(0))
    spectrum = np.abs(np.fft.rfft(made))
    assert min(spectrum[1200], spectrum[8000]) > 100 * np.median(spectrum)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("10dB", Noise(10.0, "white")),
        ("10 dB:pink", Noise(10.0, "pink")),
        ("-5.5db:babble", Noise(-5.5, "babble")),
        ("0", Noise(0.0, "white")),
    ],
)
def test_noise_as_typed(text: str, parsed: Noise) -> None:
    assert parse_noise(text) == parsed
    assert parse_noise(str(parsed)) == parsed


@pytest.mark.parametrize("text", ["", "loud", "10dB:", "10dB:brown", ":pink", "100dB", "-30dB", "nan", "10dB:pink:x"])
def test_wrong_noise_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--noise"):
        parse_noise(text)
