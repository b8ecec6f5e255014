"""From audio to the token ids that stand for it: log-mel energies, pooled, hashed by a fixed random projection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MELS = 80
HOP_MS = 20
WINDOW_MS = 25
FLOOR = 1e-10
"""Smallest mel energy, for samples in [-1, 1]."""

UNIT_START = 2
UNIT_END = 3
FIRST_AUDIO_ID = 16
"""Token ids below are markers and special tokens."""

SILENCE_DBFS = -45.0
"""A unit whose RMS is below this has no speech in it."""

Samples = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of audio as the model takes it."""

    tokens: list[int]
    """Exactly `tokens_in` ids."""
    speech: bool
    """The user speaks in it."""


class Extractor:
    """Features of one sample rate and unit; shared by all sessions, holds no session's state."""

    def __init__(self, sample_rate: int, unit_samples: int, tokens_in: int, vocab: int, seed: int = 0) -> None:
        """`vocab` must leave room for at least two audio ids above FIRST_AUDIO_ID. Raises ValueError."""
        bits = (vocab - FIRST_AUDIO_ID).bit_length() - 1
        if bits < 1:
            raise ValueError(f"a vocabulary of {vocab} tokens has no room for audio")
        self.unit_samples = unit_samples
        self._hop = sample_rate * HOP_MS // 1000
        self._size = sample_rate * WINDOW_MS // 1000
        self._window = np.hanning(self._size).astype(np.float32)
        self._mel = mel_matrix(sample_rate, self._size)
        self._markers = 2 if tokens_in > 2 else 0
        self._frames = max(1, unit_samples // self._hop)
        self._starts = np.arange(tokens_in - self._markers) * self._frames // (tokens_in - self._markers)
        lengths = np.maximum(1, np.diff(np.append(self._starts, self._frames)))
        self._lengths = lengths[:, None].astype(np.float32)
        self._scaled = np.zeros(max(self._size, self.history + unit_samples), dtype=np.float32)
        step = self._scaled.strides[0]
        shape = (self._frames, self._size)
        self._views = np.lib.stride_tricks.as_strided(self._scaled, shape, (step * self._hop, step))
        self._windowed = np.empty(shape, dtype=np.float32)
        self._spectrum = np.empty((self._frames, self._size // 2 + 1), dtype=np.complex64)
        self._power = np.empty(self._spectrum.shape, dtype=np.float32)
        self._imaginary = np.empty_like(self._power)
        self._energy = np.empty((self._frames, MELS), dtype=np.float32)
        random = np.random.default_rng(seed)
        self._plane = random.standard_normal((MELS, bits)).astype(np.float32)
        self._weights = (1 << np.arange(bits)).astype(np.int64)
        self._rms = 10 ** (SILENCE_DBFS / 20) * 32768

    @property
    def history(self) -> int:
        """Samples of the previous unit that the next one's first windows reach back to."""
        return max(0, self._size - self._hop)

    def unit(self, samples: Samples, before: Samples) -> Unit:
        """Features of `unit_samples` samples of PCM16; `before` are the `history` samples that came before them."""
        hashed = self._hash(self._pooled(np.concatenate((before, samples))))
        tokens = [UNIT_START, *hashed, UNIT_END] if self._markers else hashed
        return Unit(tokens, self.speech(samples))

    def speech(self, samples: Samples) -> bool:
        """Voice activity by energy: the unit's RMS is above SILENCE_DBFS."""
        loud = samples.astype(np.float32)
        return bool(np.dot(loud, loud) > self._rms * self._rms * len(samples))

    def log_mel(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Natural-log mel energies, shape (frames, MELS), of `history + unit_samples` samples.

        Every step writes into scratch arrays made once: fresh ones of this size cost more in page faults than the
        arithmetic. The result is valid until the next call.
        """
        np.multiply(samples, np.float32(1 / 32768), out=self._scaled[: len(samples)], dtype=np.float32)
        np.multiply(self._views, self._window, out=self._windowed)
        np.fft.rfft(self._windowed, axis=1, out=self._spectrum)  # type: ignore[arg-type]
        np.multiply(self._spectrum.real, self._spectrum.real, out=self._power)
        np.multiply(self._spectrum.imag, self._spectrum.imag, out=self._imaginary)
        np.add(self._power, self._imaginary, out=self._power)
        np.matmul(self._power, self._mel, out=self._energy)
        np.maximum(self._energy, FLOOR, out=self._energy)
        np.log(self._energy, out=self._energy)
        return self._energy

    def _pooled(self, samples: Samples) -> npt.NDArray[np.float32]:
        """Means over equal stretches of time, shape (audio tokens, MELS)."""
        sums = np.add.reduceat(self.log_mel(samples), self._starts, axis=0)
        pooled: npt.NDArray[np.float32] = np.divide(sums, self._lengths, dtype=np.float32)
        return pooled

    def _hash(self, pooled: npt.NDArray[np.float32]) -> list[int]:
        centred = pooled - pooled.mean(axis=1, keepdims=True)
        buckets = (centred @ self._plane > 0) @ self._weights
        ids: list[int] = (buckets + FIRST_AUDIO_ID).tolist()
        return ids


def mel_matrix(sample_rate: int, size: int) -> npt.NDArray[np.float32]:
    """Triangular filters, evenly spaced on the HTK mel scale (2595 log10(1 + f/700)), shape (size // 2 + 1, MELS)."""
    top = 2595 * np.log10(1 + sample_rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, MELS + 2) / 2595) - 1)
    bins = np.linspace(0, sample_rate / 2, size // 2 + 1)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    matrix: npt.NDArray[np.float32] = np.maximum(0, np.minimum(rising, falling)).astype(np.float32)
    return matrix
