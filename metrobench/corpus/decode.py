"""Audio files to mono PCM16 at the endpoint's rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from metrobench.errors import UsageError

MIN_RATE, MAX_RATE = 4_000, 384_000
MAX_SECONDS = 3_600.0
"""Longest clip that is read."""


def decode(path: Path, rate: int) -> npt.NDArray[np.int16]:
    """Mono PCM16 samples of an audio file, resampled to `rate` Hz; shape (samples,), at least one.
    Channels are averaged. Raises UsageError for a file that is missing, empty, broken or silly."""
    import soundfile
    import soxr

    if not path.is_file():
        raise UsageError(f"audio file {path} does not exist")
    try:
        with soundfile.SoundFile(path) as file:
            source_rate, length = int(file.samplerate), len(file)
            _check(path, source_rate, length)
            samples = file.read(dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, OSError) as error:
        raise UsageError(f"audio file {path} cannot be decoded: {_plain(error)}") from error
    mono = samples.mean(axis=1) if samples.shape[1] > 1 else samples[:, 0]
    if not len(mono):
        raise UsageError(f"audio file {path} is empty")
    if not np.isfinite(mono).all():
        raise UsageError(f"audio file {path} holds values that are not numbers")
    if source_rate != rate:
        mono = soxr.resample(mono, source_rate, rate, quality="HQ")
    if not len(mono):
        raise UsageError(f"audio file {path} is too short")
    pcm: npt.NDArray[np.int16] = np.clip(np.rint(mono * 32767.0), -32768, 32767).astype(np.int16)
    return pcm


def _check(path: Path, source_rate: int, length: int) -> None:
    if not MIN_RATE <= source_rate <= MAX_RATE:
        raise UsageError(f"audio file {path} has a sample rate of {source_rate} Hz")
    if length <= 0:
        raise UsageError(f"audio file {path} is empty")
    if length > MAX_SECONDS * source_rate:
        raise UsageError(f"audio file {path} is longer than {MAX_SECONDS:.0f} s", "cut it into clips")


def _plain(error: Exception) -> str:
    text = str(error)
    return text.rsplit(": ", 1)[-1].rstrip(".") or type(error).__name__
