"""Audio files of every kind, good and bad, made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile


def speech(rate: int, seconds: float = 1.0, level: float = 0.1, seed: int = 0) -> np.ndarray:
    """Bursts of noise, a quarter of a second long."""
    count = round(rate * seconds)
    bursts = np.arange(count) // (rate // 4) % 2 == 0
    return np.random.default_rng(seed).standard_normal(count) * level * bursts


def write(path: Path, samples: np.ndarray, rate: int = 16_000, **kind: str) -> Path:
    """An audio file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, **kind)
    return path


KINDS: dict[str, tuple[int, int, dict[str, str]]] = {
    "pcm.wav": (16_000, 1, {}),
    "stereo.wav": (16_000, 2, {}),
    "narrow.wav": (8_000, 1, {}),
    "wide.wav": (48_000, 1, {"subtype": "PCM_24"}),
    "mulaw.wav": (8_000, 1, {"subtype": "ULAW"}),
    "alaw.wav": (8_000, 1, {"subtype": "ALAW"}),
    "float.wav": (44_100, 2, {"subtype": "FLOAT"}),
    "lossless.flac": (48_000, 2, {}),
    "lossy.mp3": (44_100, 2, {"format": "MP3", "subtype": "MPEG_LAYER_III"}),
    "lossy.opus": (48_000, 1, {"format": "OGG", "subtype": "OPUS"}),
    "lossy.ogg": (44_100, 1, {"format": "OGG", "subtype": "VORBIS"}),
    "old.aiff": (22_050, 1, {}),
}
"""File name to rate, channels and encoding of what must be read."""


def write_kind(folder: Path, name: str, seconds: float = 1.0) -> Path:
    """One of KINDS."""
    rate, channels, kind = KINDS[name]
    mono = speech(rate, seconds)
    return write(folder / name, np.stack([mono] * channels, axis=1), rate, **kind)


def write_bad(folder: Path) -> dict[str, str]:
    """One file of each kind of trouble, and what is to be said of it (part of a sentence)."""
    good = speech(16_000)
    write(folder / "silent.wav", np.zeros(16_000))
    write(folder / "faint.wav", good * 1e-3)
    write(folder / "clipped.wav", np.clip(good * 30, -1, 1))
    write(folder / "empty.wav", np.zeros(0))
    (folder / "zero.mp3").write_bytes(b"")
    (folder / "corrupt.flac").write_bytes(np.random.default_rng(1).bytes(5000))
    (folder / "text.wav").write_text("this is not audio\n" * 50)
    for name in ("cut.wav", "cut.opus", "cut.mp3", "cut.flac"):
        rate, kind = (
            (16_000, {}) if name in ("cut.wav", "cut.flac") else (48_000, KINDS[f"lossy{Path(name).suffix}"][2])
        )
        path = write(folder / name, speech(rate, 4.0), rate, **kind)
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    return {
        "silent.wav": "is silent (every sample is 0)",
        "faint.wav": "is silent (-8",
        "clipped.wav": "is clipped (",
        "empty.wav": "is empty",
        "zero.mp3": "cannot be decoded",
        "corrupt.flac": "cannot be decoded",
        "text.wav": "cannot be decoded",
        "cut.wav": "is cut short: 67 %",
        "cut.opus": "is cut short: its last page is missing",
        "cut.mp3": "is damaged",
        "cut.flac": "cannot be decoded",
    }
