from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from metrobench.corpus import stream
from metrobench.corpus.stream import SILENCE, build_table, chunk_samples, session_runs, session_stream
from metrobench.errors import UsageError

CLIPS = ((1, 40), (41, 7), (48, 120), (168, 1))


def take(count: int, session: int = 0, seed: int = 1) -> list[int]:
    return list(islice(session_stream(CLIPS, seed, session), count))


def test_stream_is_the_same_for_the_same_seed_and_session() -> None:
    assert take(5000) == take(5000)
    assert take(5000) != take(5000, seed=2)


def test_runs_are_the_same_audio() -> None:
    flat: list[int] = []
    for first, count in islice(session_runs(CLIPS, 1, 0), 40):
        assert count > 0
        flat += [SILENCE] * count if first == SILENCE else range(first, first + count)
    assert flat == take(len(flat))


def test_sessions_differ_from_each_other() -> None:
    streams = {tuple(take(3000, session)) for session in range(200)}
    assert len(streams) == 200


def test_sessions_begin_at_different_places() -> None:
    assert len({take(1, session)[0] for session in range(200)}) > 20


def test_user_talks_about_half_of_the_time() -> None:
    talking = [np.mean(np.array(take(20_000, session)) != SILENCE) for session in range(20)]
    assert 0.45 < np.mean(talking) < 0.55
    assert all(0.35 < share < 0.65 for share in talking)


def test_sessions_are_as_likely_to_talk_at_the_start_as_later() -> None:
    starts = np.mean([take(1, session)[0] != SILENCE for session in range(2000)])
    assert 0.45 < starts < 0.55


@given(st.integers(0, 2**32), st.integers(0, 1000))
def test_clips_are_played_whole_and_followed_by_a_pause(seed: int, session: int) -> None:
    chunks = take(4000, session, seed)
    starts = dict(CLIPS)
    place = 1
    while place < len(chunks):
        if chunks[place - 1] == SILENCE and chunks[place] != SILENCE:
            first = chunks[place]
            count = starts[first]
            part = chunks[place : place + count]
            assert part == list(range(first, first + count))[: len(part)]
            if place + count < len(chunks):
                assert chunks[place + count] == SILENCE
            place += count
        place += 1


def test_every_clip_comes_once_a_round() -> None:
    chunks = take(10_000)
    heard = [chunk for chunk in chunks if chunk in {first for first, _ in CLIPS}]
    later = heard[len(CLIPS) :]
    for start in range(0, len(later) - 2 * len(CLIPS), 1):
        assert len(set(later[start : start + 2 * len(CLIPS)])) == len(CLIPS)


def test_clips_are_cut_to_whole_chunks_padded_with_silence(tmp_path: Path) -> None:
    samples = np.arange(1, 801, dtype=np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 16_000, subtype="PCM_16")
    table = build_table((tmp_path / "a.wav", tmp_path / "a.wav"), 16_000)
    assert table.chunks.shape == (7, 320)
    assert table.clips == ((1, 3), (4, 3))
    assert not table.chunks[SILENCE].any()
    assert np.abs(table.chunks[1:4].reshape(-1)[:800].astype(int) - samples).max() <= 1
    assert not table.chunks[3][160:].any()
    assert len(table.pcm(1)) == 640
    assert np.frombuffer(table.pcm(1), "<i2")[9] == table.chunks[1][9]


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
