from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from metrobench.corpus.stream import SILENCE, ChunkTable
from metrobench.corpus.turns import turns
from metrobench.units import CHUNK

LOUD = 1
"""First chunk of the only clip."""


def table(loud: int, quiet: int) -> ChunkTable:
    chunks = np.zeros((1 + loud + quiet, 160), dtype=np.int16)
    chunks[LOUD : LOUD + loud] = 3000
    return ChunkTable(chunks, ((LOUD, loud + quiet),))


def spoken(made: ChunkTable, period: float, first_ready: float, seconds: float) -> list[bool]:
    heard: list[bool] = []
    for first, count in turns(made, 1, 0, period, first_ready):
        heard += [False] * count if first == SILENCE else made.chunks[first : first + count].any(axis=1).tolist()
        if len(heard) * CHUNK >= seconds:
            break
    return heard


@pytest.mark.parametrize("first_ready", [1.0, 0.6, 0.2])
def test_every_utterance_ends_when_its_turn_is_ready(first_ready: float) -> None:
    heard = spoken(table(20, 15), 1.0, first_ready, 6.0)
    ends = [n + 1 for n in range(len(heard) - 1) if heard[n] and not heard[n + 1]]
    assert ends[:4] == [round(first_ready / CHUNK) + 50 * k for k in range(4)]


def test_of_a_long_clip_the_end_is_spoken_for_half_of_the_period() -> None:
    heard = spoken(table(200, 0), 1.0, 1.0, 5.0)
    assert sum(heard[50:100]) == 25


def test_clips_in_which_nothing_is_spoken_are_silence() -> None:
    assert not any(spoken(table(0, 30), 1.0, 1.0, 3.0))


def test_sessions_speak_in_orders_of_their_own() -> None:
    chunks = np.full((41, 160), 3000, dtype=np.int16)
    made = ChunkTable(chunks, tuple((1 + 4 * n, 4) for n in range(10)))
    first, second = (list(islice(turns(made, 1, session, 1.0, 1.0), 12)) for session in (0, 1))
    assert first != second
    assert first == list(islice(turns(made, 1, 0, 1.0, 1.0), 12))
