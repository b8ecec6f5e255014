from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from metrobench.corpus import stream
from metrobench.corpus.mix import Noise
from metrobench.corpus.stream import BED, SILENCE, build_table, chunk_samples, load_table, save_table
from metrobench.errors import UsageError


def test_clips_are_cut_to_whole_chunks_padded_with_silence(tmp_path: Path) -> None:
    samples = np.arange(1, 801, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 16_000, subtype="PCM_16")
    table = build_table((tmp_path / "a.wav", tmp_path / "a.wav"), 16_000)
    assert table.chunks.shape == (7, 320)
    assert table.clips == ((1, 3), (4, 3))
    assert not table.chunks[SILENCE].any()
    assert np.abs(table.chunks[1:4].reshape(-1)[:800].astype(int) - samples).max() <= 1
    assert not table.chunks[3][160:].any()
    assert table.bed == (SILENCE, 1)
    assert len(table.pcm(1)) == 640
    assert np.frombuffer(table.pcm(1), "<i2")[9] == table.chunks[1][9]


def test_long_clips_are_cut_into_turns_where_they_are_quiet(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).standard_normal(16_000 * 25) * 0.1
    for pause in (7.0, 16.0):
        samples[round(pause * 16_000) : round((pause + 0.2) * 16_000)] = 0.0
    soundfile.write(tmp_path / "a.wav", samples, 16_000)
    turns = build_table((tmp_path / "a.wav",), 16_000).clips
    assert [first for first, _ in turns] == [1, *(first + count for first, count in turns[:-1])]
    assert sum(count for _, count in turns) == 25 * 50
    assert all(count <= 500 for _, count in turns)
    assert [count / 50 for _, count in turns[:2]] == pytest.approx([7.1, 9.0], abs=0.1)


def test_table_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "a.wav", np.ones(3200), 16_000)
    clip = tmp_path / "a.wav"
    monkeypatch.setattr(stream, "MAX_CHUNKS", 25)
    assert len(build_table((clip, clip, clip, clip), 16_000).clips) == 2
    monkeypatch.setattr(stream, "MAX_CHUNKS", 5)
    with pytest.raises(UsageError, match="longer than"):
        build_table((clip,), 16_000)


def test_no_clips() -> None:
    with pytest.raises(UsageError, match="no audio clips"):
        build_table((), 16_000)


def test_rate_must_divide_into_chunks() -> None:
    assert chunk_samples(44_100) == 882
    with pytest.raises(UsageError, match="20 ms"):
        chunk_samples(22_051)


@pytest.fixture
def clips(tmp_path: Path) -> tuple[Path, ...]:
    """Three clips of different levels, 1 s each."""
    paths = []
    for number, level in enumerate((0.02, 0.05, 0.1)):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.random.default_rng(number).standard_normal(16_000) * level, 16_000)
        paths.append(path)
    return tuple(paths)


def decibels(chunks: np.ndarray) -> float:
    return float(10 * np.log10(np.mean((chunks / 32768.0) ** 2)))


def test_noise_lies_under_clips_and_fills_pauses(clips: tuple[Path, ...]) -> None:
    quiet, noisy = build_table(clips, 16_000), build_table(clips, 16_000, Noise(10.0, "white"))
    assert noisy.clips == quiet.clips
    first, count = noisy.bed
    assert (first, count) == (151, BED) and len(noisy.chunks) == first + count
    assert not noisy.chunks[SILENCE].any()
    for start, length in quiet.clips:
        clean, mixed = (table.chunks[start : start + length].astype(float) for table in (quiet, noisy))
        assert decibels(clean) - decibels(mixed - clean) == pytest.approx(10.0, abs=0.2)
    assert decibels(noisy.chunks[first:]) == pytest.approx(20 * np.log10(0.05) - 10.0, abs=0.3)


def test_each_clip_has_noise_of_its_own(clips: tuple[Path, ...]) -> None:
    same = (clips[0], clips[0])
    quiet, noisy = build_table(same, 16_000), build_table(same, 16_000, Noise(0.0, "white"))
    first, second = (noisy.chunks[a : a + n].astype(float) - quiet.chunks[a : a + n] for a, n in noisy.clips)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.1


@pytest.mark.parametrize("kind", ["white", "pink", "babble"])
def test_the_same_audio_each_time(clips: tuple[Path, ...], kind: str) -> None:
    first, second = (build_table(clips, 8_000, Noise(5.0, kind)) for _ in range(2))
    assert np.array_equal(first.chunks, second.chunks)


def test_gain_comes_before_noise(clips: tuple[Path, ...]) -> None:
    plain, louder = build_table(clips, 16_000), build_table(clips, 16_000, None, 6.0)
    start, length = plain.clips[0]
    assert decibels(louder.chunks[start : start + length]) - decibels(plain.chunks[start : start + length]) == (
        pytest.approx(6.0, abs=0.05)
    )


def test_a_table_is_read_back_as_it_was_written(clips: tuple[Path, ...], tmp_path: Path) -> None:
    table = build_table(clips, 16_000, Noise(10.0, "pink"))
    save_table(tmp_path / "t.npz", table)
    back = load_table(tmp_path / "t.npz")
    assert np.array_equal(back.chunks, table.chunks) and back.chunks.dtype == np.int16
    assert (back.clips, back.bed) == (table.clips, table.bed)


def test_a_table_that_cannot_be_written_or_read_is_named(tmp_path: Path, clips: tuple[Path, ...]) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        save_table(tmp_path / "none" / "t.npz", build_table(clips, 16_000))
    for content in (b"", b"PK nonsense"):
        (tmp_path / "t.npz").write_bytes(content)
        with pytest.raises(UsageError, match="cannot be read"):
            load_table(tmp_path / "t.npz")
