"""Audio files to mono PCM16 at the endpoint's rate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from metrobench.errors import UsageError

MIN_RATE, MAX_RATE = 4_000, 384_000
MAX_SECONDS = 3_600.0
"""Longest clip that is read."""

SUFFIXES = frozenset(
    (".wav", ".flac", ".ogg", ".opus", ".oga", ".mp3", ".aif", ".aiff", ".aifc", ".au", ".snd", ".caf", ".w64", ".rf64")
)
"""Names of audio files that libsndfile reads, mu-law and A-law WAV among them."""


@dataclass(frozen=True, slots=True)
class Sound:
    """An audio file as it is."""

    samples: npt.NDArray[np.float32]
    """Shape (samples, channels), full scale is 1.0; at least one sample, all finite."""
    rate: int
    """Hz."""
    promised: int
    """Samples that the file's header speaks of; a damaged file holds fewer."""
    format: str
    """Container and encoding, for example `WAV ULAW`."""
    log: str
    """What libsndfile found in the header."""

    def mono(self) -> npt.NDArray[np.float32]:
        """The mean of the channels, shape (samples,)."""
        mono: npt.NDArray[np.float32] = self.samples.mean(axis=1) if self.samples.shape[1] > 1 else self.samples[:, 0]
        return mono


def read_sound(path: Path) -> Sound:
    """All samples of an audio file. Raises UsageError for a file that is missing, empty, broken or silly."""
    import soundfile

    if not path.is_file():
        raise UsageError(f"audio file {path} does not exist")
    try:
        with _quiet_stderr(path), soundfile.SoundFile(path) as file:
            rate, length = int(file.samplerate), len(file)
            _check(path, rate, length)
            samples = file.read(dtype="float32", always_2d=True)
            kind, log = f"{file.format} {file.subtype}", str(file.extra_info)
    except (soundfile.SoundFileError, RuntimeError, OSError) as error:
        raise UsageError(f"audio file {path} cannot be decoded: {_plain(error)}") from error
    if not len(samples):
        raise UsageError(f"audio file {path} is empty")
    if not np.isfinite(samples).all():
        raise UsageError(f"audio file {path} holds values that are not numbers")
    return Sound(samples, rate, length, kind, log)


def decode(path: Path, rate: int) -> npt.NDArray[np.int16]:
    """Mono PCM16 samples of an audio file, resampled to `rate` Hz; shape (samples,), at least one.
    Channels are averaged. Raises UsageError for a file that is missing, empty, broken or silly."""
    import soxr

    sound = read_sound(path)
    mono = sound.mono()
    if sound.rate != rate:
        mono = soxr.resample(mono, sound.rate, rate, quality="HQ")
    if not len(mono):
        raise UsageError(f"audio file {path} is too short")
    return to_pcm(mono)


def to_pcm(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """PCM16 of samples whose full scale is 1.0; what is beyond it is clipped."""
    pcm: npt.NDArray[np.int16] = np.clip(np.rint(samples * 32767.0), -32768, 32767).astype(np.int16)
    return pcm


def seconds_of(path: Path) -> float | None:
    """Length by the file's header, without decoding it; None where it cannot be read."""
    import soundfile

    try:
        with _quiet_stderr(path):
            info = soundfile.info(path)
        return float(info.frames) / float(info.samplerate)
    except (soundfile.SoundFileError, RuntimeError, OSError, ZeroDivisionError):
        return None


def _check(path: Path, source_rate: int, length: int) -> None:
    if not MIN_RATE <= source_rate <= MAX_RATE:
        raise UsageError(f"audio file {path} has a sample rate of {source_rate} Hz")
    if length <= 0:
        raise UsageError(f"audio file {path} is empty")
    if length > MAX_SECONDS * source_rate:
        raise UsageError(f"audio file {path} is longer than {MAX_SECONDS:.0f} s", "cut it into clips")


def _plain(error: Exception) -> str:
    text = str(error).rsplit(": ", 1)[-1].rstrip(".")
    # libsndfile's words where its MP3 decoder finds nothing to decode
    return "no audio found in it" if text.startswith("File does not exist") else text or type(error).__name__


@contextmanager
def _quiet_stderr(path: Path) -> Iterator[None]:
    """The MP3 decoder writes its complaints about a broken file to file descriptor 2 itself."""
    if path.suffix.lower() != ".mp3":
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        with suppress(OSError):
            os.close(kept)
            os.close(nowhere)
