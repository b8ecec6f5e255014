"""Who talks when decides what each frame adds: the worker's own rule, and the spread of t* over many runs."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from metrobench.corpus.choice import choose_audio
from metrobench.corpus.pattern import TALK, each_chunk, on_bed, session_runs
from metrobench.corpus.stream import ChunkTable, build_table
from metrobench.predict.model import Pool, crossing_of
from metrobench.predict.talk import (
    Load,
    Rates,
    Spread,
    Voices,
    _from_single,
    crossings,
    listens_share,
    speaking_share,
    spread,
    tokens_of,
    voices_of,
)
from metrobench.schedule import offset_of, phases
from metrobench.units import CHUNK
from metrobench.worker.features import SILENCE_DBFS, Extractor

RATE = 8_000
RATES = Rates(0.5, 6, 9)


@pytest.fixture(scope="module")
def table() -> ChunkTable:
    """Clips with pauses inside, some near the threshold of silence."""
    rng = np.random.default_rng(1)
    lengths = (40, 90, 130)
    loud = np.concatenate([[0.0], rng.choice([0.0, 60.0, 184.0, 400.0, 3000.0], sum(lengths))])
    chunks = (loud[:, None] * rng.standard_normal((len(loud), round(RATE * CHUNK)))).round().astype(np.int16)
    starts = np.cumsum([1, *lengths])
    return ChunkTable(chunks, tuple((int(start), length) for start, length in zip(starts, lengths, strict=False)))


@pytest.fixture(scope="module")
def voices(table: ChunkTable) -> Voices:
    return voices_of(table, SILENCE_DBFS)


@pytest.mark.parametrize("talk", TALK)
@pytest.mark.parametrize("bed", [(0, 1), (5, 33)])
def test_the_worker_would_say_the_same_of_every_frame(table: ChunkTable, bed: tuple[int, int], talk: str) -> None:
    frames, chunks, seed = 60, round(RATES.unit / CHUNK), 2
    voices = voices_of(replace(table, bed=bed), SILENCE_DBFS, talk)
    extractor = Extractor(RATE, chunks * round(RATE * CHUNK), 6, 64)
    for session, tokens in enumerate(tokens_of(voices, RATES, seed, 4, frames)):
        runs = on_bed(session_runs(table.clips, seed, session, talk), bed)
        stream = list(islice(each_chunk(runs), frames * chunks))
        audio = table.chunks[stream].reshape(frames, -1)
        added = [RATES.listening if extractor.speech(frame) else RATES.speaking for frame in audio]
        assert tokens.tolist() == np.cumsum(added).tolist()


@given(st.floats(0.05, 0.95), st.integers(0, 100))
def test_a_given_share_of_speaking_is_kept(share: float, seed: int) -> None:
    loud = listens_share(share, 60, 400, 0.5, np.random.default_rng(seed))
    assert 1.0 - loud.mean() == pytest.approx(share, abs=0.06)


def test_the_share_of_speaking_is_read_off_the_corpus(voices: Voices) -> None:
    assert 0.0 < speaking_share(voices, RATES, 1) < 1.0
    assert speaking_share(0.3, RATES, 1) == 0.3


def load(sessions: int, talk: Voices | float = 0.4) -> Load:
    return Load(np.zeros(sessions), np.zeros(sessions, dtype=np.int64), RATES, talk, 0.5)


def test_the_run_with_a_seed_is_one_of_those_drawn(voices: Voices) -> None:
    pool, alike = Pool(126, 32), load(8, voices)
    tokens = tokens_of(voices, RATES, 5, 8, 100)
    expected = crossing_of(pool, phases(8, 0.5, offset_of(5)), 0.5, tokens)
    assert crossings(pool, alike, range(5, 6), 100).tolist() == [expected]


def test_other_runs_fall_into_the_interval_as_often_as_it_says() -> None:
    pool, alike = Pool(126, 32), load(8)
    found = spread(pool, alike, seed=1)
    others = crossings(pool, alike, range(10_000, 10_300), 100)
    inside = np.mean((others >= found.lower) & (others <= found.upper))
    assert 0.91 <= inside <= 0.99
    for duration in np.quantile(others, [0.2, 0.5, 0.8]):
        assert found.before(float(duration)) == pytest.approx(np.mean(others < duration), abs=0.1)


def test_a_pool_too_large_to_simulate_is_told_from_single_sessions() -> None:
    pool, alike = Pool(40_001, 16), load(64)
    found = spread(pool, alike, seed=1)
    assert found.patterns == 0
    simulated = crossings(pool, alike, range(3), 2_000)
    assert found.time == pytest.approx(simulated.mean(), rel=0.02)


@pytest.mark.parametrize("talk", ["paired", "half", "dialogue", None])
def test_both_ways_agree_where_both_can_be_gone(table: ChunkTable, talk: str | None) -> None:
    pool, alike = Pool(400, 32), load(16, voices_of(table, SILENCE_DBFS, talk) if talk else 0.4)
    drawn, told = spread(pool, alike, 1), _from_single(pool, alike, 1)
    assert drawn.patterns > 20
    assert told.time == pytest.approx(drawn.time, rel=0.03)
    assert 0.5 < told.deviation / drawn.deviation < 2.0


def test_on_the_shipped_audio_couples_keep_the_load_even() -> None:
    table = build_table(choose_audio().files, 16_000)
    swing, peak = {}, {}
    for talk in ("half", "paired"):
        voices = voices_of(table, SILENCE_DBFS, talk)
        runs = [tokens_of(voices, Rates(1.0, 0, 1), seed, 150, 20) for seed in range(1, 13)]
        speaking = np.array([np.diff(run, axis=1, prepend=0).sum(axis=0) for run in runs])
        swing[talk] = speaking.std() / speaking.mean()
        peak[talk] = sliding_window_view(speaking, 3, axis=1).mean(axis=2).max(axis=1) / speaking.mean() - 1.0
    # the figures of docs/numbers.md, MSCS
    assert swing == {"half": pytest.approx(0.10, abs=0.005), "paired": pytest.approx(0.045, abs=0.005)}
    found = {talk: [each.mean(), each.min(), each.max()] for talk, each in peak.items()}
    assert found["half"] == pytest.approx([0.13, 0.04, 0.22], abs=0.005)
    assert found["paired"] == pytest.approx([0.04, 0.01, 0.07], abs=0.005)


def test_couples_that_take_turns_spread_less(table: ChunkTable) -> None:
    pool = Pool(400, 32)
    alone, paired = (
        [way(pool, load(16, voices_of(table, SILENCE_DBFS, talk)), 1).deviation for way in (spread, _from_single)]
        for talk in ("half", "paired")
    )
    for independent, turns in zip(alone, paired, strict=True):
        assert turns < 0.7 * independent


def test_runs_without_any_spread_are_before_or_after() -> None:
    assert Spread(10.0, 0.0, 5).before(11.0) == 1.0
    assert Spread(10.0, 0.0, 5).before(9.0) == 0.0
