"""Levels, noise and gain on speech. Pure: samples are float32 arrays of shape (samples,), full scale is 1.0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from metrobench.errors import UsageError
from metrobench.units import parse_decibels

Samples = npt.NDArray[np.float32]
Kind = TypeVar("Kind", bound=np.generic)

KINDS = ("white", "pink", "babble")
LOW, HIGH = -20.0, 60.0
"""Signal-to-noise ratios that may be asked for, dB."""

SPEECH_MARGIN = 15.9
"""dB below the level of active speech at which speech ends and pause begins (ITU-T P.56, 03/93, method B)."""
CEILING = 0.97
"""Largest sample of a mixture that had to be turned down."""
VOICES = 6
"""Talkers in babble: 6 to 8 of them mask speech most (Simpson and Cooke, JASA 118, 2005)."""
PINK_LOW = 20.0
"""Hz below which pink noise gets no louder."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Background noise, as asked for."""

    snr: float
    """dB by which the speech of each clip is louder."""
    kind: str
    """One of KINDS."""

    def __str__(self) -> str:
        return f"{self.snr:g}dB:{self.kind}"


def parse_noise(text: str) -> Noise:
    """`10dB`, `10dB:pink`, `-3dB:babble`; white where no kind is named. Raises UsageError."""
    level, _, kind = text.partition(":")
    chosen = kind.strip() or KINDS[0]
    if chosen not in KINDS or (":" in text and not kind.strip()):
        raise UsageError(f"--noise {text!r}: unknown kind {kind!r}", f"kinds are {', '.join(KINDS)}")
    return Noise(parse_decibels(level, name="--noise", low=LOW, high=HIGH), chosen)


def power(samples: Samples) -> float:
    """Mean square; 0 for no samples."""
    return float(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0


def decibels(value: float) -> float | None:
    """10 log10 of a power, dBFS where 1.0 is full scale (a square wave's); None for 0."""
    return 10.0 * float(np.log10(value)) if value > 0.0 else None


def amplify(samples: Samples, gain: float) -> Samples:
    """`samples` louder by `gain` dB, less where they would clip."""
    return protect(samples * np.float32(10.0 ** (gain / 20.0)))


def protect(samples: Samples) -> Samples:
    """`samples`, turned down as a whole to CEILING where any of them is beyond full scale."""
    peak = float(np.abs(samples).max(initial=0.0))
    return samples if peak <= 1.0 else samples * np.float32(CEILING / peak)


def pad(samples: npt.NDArray[Kind], multiple: int) -> npt.NDArray[Kind]:
    """`samples` and as much silence as makes their number a multiple of `multiple`."""
    return np.concatenate([samples, np.zeros(-len(samples) % multiple, dtype=samples.dtype)])


def speech_power(samples: Samples, chunk: int) -> float:
    """Mean square of the parts that are speech; 0 for silence.

    Parts are `chunk` samples (20 ms); speech are those no more than SPEECH_MARGIN dB below the result, the margin of
    ITU-T P.56. Found by leaving out the quieter ones until nothing changes.
    """
    whole = pad(samples, chunk).reshape(-1, chunk)
    powers = np.mean(np.square(whole, dtype=np.float64), axis=1)
    margin = 10.0 ** (-SPEECH_MARGIN / 10.0)
    while len(powers):
        level = float(powers.mean())
        kept = powers[powers >= level * margin]
        if len(kept) == len(powers):
            return level
        powers = kept
    return 0.0


def mix(speech: Samples, noise: Samples, snr: float, chunk: int) -> Samples:
    """Speech with `noise` (of power 1, as long or longer) under it, `snr` dB quieter than the speech's active level.

    Both are turned down together where they would clip, so that the ratio stays. Silence stays silence.
    """
    level = np.float32(noise_level(speech_power(speech, chunk), snr))
    return protect(speech + noise[: len(speech)] * level)


def noise_level(speech: float, snr: float) -> float:
    """RMS of noise `snr` dB below speech of power `speech`."""
    return float(np.sqrt(speech * 10.0 ** (-snr / 10.0)))


def make_noise(kind: str, count: int, rate: int, voices: Sequence[Samples], rng: np.random.Generator) -> Samples:
    """`count` samples of power 1 at `rate` Hz; white and pink ones may be played in a loop without a seam.

    `voices` are clips of speech, for babble. Raises UsageError where none of them has any sound.
    """
    if kind == "babble":
        return _unit(babble(voices, count, rate // 50, rng))
    white = rng.standard_normal(count).astype(np.float32)
    return _unit(white if kind == "white" else pink(white, rate))


def pink(white: Samples, rate: int) -> Samples:
    """Noise whose power falls by 3 dB an octave above PINK_LOW: the spectrum of `white` over the root of frequency."""
    spectrum = np.fft.rfft(white)
    hertz = np.fft.rfftfreq(len(white), 1.0 / rate)
    shaped = np.fft.irfft(spectrum / np.sqrt(np.maximum(hertz, PINK_LOW)), len(white))
    return shaped.astype(np.float32)


def babble(voices: Sequence[Samples], count: int, chunk: int, rng: np.random.Generator) -> Samples:
    """VOICES talkers at once, equally loud: each plays `voices` one after another in an order of its own."""
    loud = [(voice, speech_power(voice, chunk)) for voice in voices]
    even = [voice / np.float32(np.sqrt(level)) for voice, level in loud if level > 0.0]
    if not even:
        raise UsageError("babble needs clips with speech in them, and all of these are silent")
    crowd = np.zeros(count, dtype=np.float32)
    for _ in range(VOICES):
        crowd += _talker(even, count, rng)
    return crowd


def _talker(voices: list[Samples], count: int, rng: np.random.Generator) -> Samples:
    first = voices[int(rng.integers(len(voices)))]
    parts = [first[int(rng.integers(len(first))) :]]
    total = len(parts[0])
    while total < count:
        for number in rng.permutation(len(voices)):
            parts.append(voices[number])
            total += len(voices[number])
            if total >= count:
                break
    return np.concatenate(parts)[:count]


def _unit(samples: Samples) -> Samples:
    return samples / np.float32(np.sqrt(power(samples)))
