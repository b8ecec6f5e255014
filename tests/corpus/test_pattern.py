from __future__ import annotations

from itertools import groupby, islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.corpus.pattern import TALK, each_chunk, session_runs, speech_share
from metrobench.corpus.stream import SILENCE, ChunkTable
from metrobench.units import CHUNK

CLIPS = ((1, 40), (41, 7), (48, 120), (168, 1))
talks = pytest.mark.parametrize("talk", TALK)


def take(count: int, session: int = 0, seed: int = 1, talk: str = "half") -> list[int]:
    """The first chunks of a session, by number."""
    chunks: list[int] = []
    for first, length in session_runs(CLIPS, seed, session, talk):
        chunks += [SILENCE] * length if first == SILENCE else range(first, first + length)
        if len(chunks) >= count:
            return chunks[:count]
    raise AssertionError("a pattern ended")


@talks
def test_runs_are_the_same_for_the_same_seed_and_session(talk: str) -> None:
    assert take(5000, talk=talk) == take(5000, talk=talk)
    assert take(5000, talk=talk) != take(5000, seed=2, talk=talk)


@talks
def test_sessions_differ_from_each_other(talk: str) -> None:
    assert len({tuple(take(3000, session, talk=talk)) for session in range(200)}) == 200


@talks
def test_sessions_begin_at_different_places(talk: str) -> None:
    assert len({take(1000, session, talk=talk)[-1] for session in range(200)}) > 20
    assert len({next(chunk for chunk in take(1000, session, talk=talk) if chunk) for session in range(200)}) > 20


@talks
@given(seed=st.integers(0, 2**32), session=st.integers(0, 1000))
def test_runs_are_never_empty_and_stay_inside_the_clips(talk: str, seed: int, session: int) -> None:
    for first, count in islice(session_runs(CLIPS, seed, session, talk), 200):
        assert count > 0
        assert first == SILENCE or any(a <= first and first + count <= a + n for a, n in CLIPS)


@pytest.mark.parametrize(("talk", "share"), [("paired", 0.5), ("half", 0.5), ("continuous", 1.0), ("dialogue", 0.425)])
def test_users_talk_as_much_as_the_pattern_says_from_the_start_on(talk: str, share: float) -> None:
    talking = [np.mean(np.array(take(20_000, session, talk=talk)) != SILENCE) for session in range(20)]
    assert np.mean(talking) == pytest.approx(share, abs=0.03)
    starts = np.mean([take(1, session, talk=talk)[0] != SILENCE for session in range(2000)])
    assert starts == pytest.approx(share, abs=0.05)


def test_in_halves_clips_are_played_whole_and_followed_by_a_pause() -> None:
    starts = dict(CLIPS)
    runs = list(islice(session_runs(CLIPS, 3, 0), 300))
    for (first, count), (then, _) in pairwise(runs[2:]):
        if first != SILENCE:
            assert count == starts[first]
            assert then == SILENCE


@given(seed=st.integers(0, 2**32), couple=st.integers(0, 500))
def test_of_a_couple_one_user_talks_at_any_moment(seed: int, couple: int) -> None:
    one, other = (np.array(take(2000, 2 * couple + side, seed, "paired")) for side in (0, 1))
    assert np.all((one == SILENCE) != (other == SILENCE))


def test_couples_know_nothing_of_each_other() -> None:
    talking = np.array([np.array(take(2000, 2 * couple, talk="paired")) != SILENCE for couple in range(200)])
    # as many as of independent users, sqrt(200) / 2 = 7 by one standard deviation
    assert 4.0 < talking.sum(axis=0).std() < 11.0


def test_in_couples_clips_are_played_whole() -> None:
    starts = dict(CLIPS)
    runs = list(islice(session_runs(CLIPS, 3, 0, "paired"), 300))[2:]
    assert {first for first, _ in runs if first != SILENCE} == set(starts)
    assert all(count == starts[first] for first, count in runs if first != SILENCE)


@pytest.mark.parametrize("talk", ["half", "continuous"])
def test_every_clip_comes_once_a_round(talk: str) -> None:
    heard = [first for first, _ in islice(session_runs(CLIPS, 1, 0, talk), 100) if first != SILENCE][1:]
    # the first round may lack its first clip, where a session begins in the pause after it
    rounds = [[set(heard[at : at + 4]) for at in range(lost, len(heard) - 3, 4)] for lost in (2, 3)]
    assert any(all(played == set(dict(CLIPS)) for played in each) for each in rounds)


def test_without_pause_there_is_no_silence() -> None:
    assert SILENCE not in take(20_000, talk="continuous")


def test_spurts_and_pauses_of_a_dialogue_are_those_of_a_telephone_call() -> None:
    # P.59's state model: spurts of 1.03 s and pauses of 1.40 s (its Table 1 measured 1.004 s and 1.587 s)
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for session in range(20):
        chunks = np.array(take(50_000, session, talk="dialogue")) != SILENCE
        for talking, count in [(talking, len(list(group))) for talking, group in groupby(chunks.tolist())][1:-1]:
            lengths[talking].append(count)
    assert np.mean(lengths[True]) * CHUNK == pytest.approx(1.035, rel=0.05)
    assert np.mean(lengths[False]) * CHUNK == pytest.approx(1.40, rel=0.05)


def test_in_a_dialogue_a_clip_goes_on_where_it_was_cut() -> None:
    spoken = [chunk for chunk in take(20_000, talk="dialogue") if chunk != SILENCE]
    ends = {first + count - 1 for first, count in CLIPS}
    starts = {first for first, _ in CLIPS}
    for chunk, after in pairwise(spoken):
        assert after == chunk + 1 or (chunk in ends and after in starts)


@pytest.mark.parametrize(("talk", "level", "share"), [("half", 0, 0.5), ("continuous", 0, 1.0), ("half", 3000, 1.0)])
def test_share_of_units_in_which_the_user_is_heard(talk: str, level: int, share: float) -> None:
    chunks = np.full((20_001, 8), 3000, np.int16)
    chunks[SILENCE] = 0
    bed = np.full((7, 8), level, np.int16)
    clips = tuple((1 + 2000 * number, 2000) for number in range(10))
    table = ChunkTable(np.concatenate([chunks, bed]), clips, (20_001, 7))
    assert speech_share(table, talk, 50, -45.0) == pytest.approx(share, abs=0.2)


def test_chunk_by_chunk_is_the_same_audio() -> None:
    assert list(each_chunk([(5, 3), (9, 1)])) == [5, 6, 7, 9]
