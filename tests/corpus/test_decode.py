from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from metrobench.corpus.decode import decode
from metrobench.errors import UsageError


def tone(rate: int, seconds: float, hertz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)


def strongest(pcm: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    return float(np.argmax(spectrum) * rate / len(pcm))


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 44_100, 48_000])
def test_resampling_keeps_length_pitch_and_level(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(rate, 1.0), rate)
    pcm = decode(path, 16_000)
    assert pcm.dtype == np.int16
    assert abs(len(pcm) - 16_000) <= 1
    assert strongest(pcm, 16_000) == pytest.approx(440.0, abs=2.0)
    assert np.abs(pcm[2000:-2000]).max() == pytest.approx(0.5 * 32767, rel=0.02)


def test_same_rate_is_left_alone(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-32768, 32767, 4000).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 16_000, subtype="PCM_16")
    assert np.abs(decode(tmp_path / "a.wav", 16_000).astype(int) - samples).max() <= 1


def test_channels_are_averaged(tmp_path: Path) -> None:
    left = tone(16_000, 0.5)
    soundfile.write(tmp_path / "a.wav", np.stack([left, -left], axis=1), 16_000)
    assert np.abs(decode(tmp_path / "a.wav", 16_000)).max() <= 2


def test_full_scale_does_not_wrap(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([2.0, -2.0] * 100, dtype=np.float32), 16_000, subtype="FLOAT")
    assert set(decode(tmp_path / "a.wav", 16_000).tolist()) == {32767, -32768}


@pytest.mark.parametrize("content", [b"", b"RIFF", b"not audio at all" * 100, bytes(5000)])
def test_broken_files_are_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.wav"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"broken\.wav cannot be decoded"):
        decode(path, 16_000)


def test_file_without_samples(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16_000)
    with pytest.raises(UsageError, match="empty"):
        decode(tmp_path / "empty.wav", 16_000)


def test_values_that_are_not_numbers(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "nan.wav", np.array([0.0, np.nan], dtype=np.float32), 16_000, subtype="FLOAT")
    with pytest.raises(UsageError, match="not numbers"):
        decode(tmp_path / "nan.wav", 16_000)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.wav", tmp_path):
        with pytest.raises(UsageError, match="does not exist"):
            decode(path, 16_000)
