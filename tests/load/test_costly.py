from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metrobench.corpus.stream import SILENCE, ChunkTable
from metrobench.endpoints.base import EndpointBase
from metrobench.load.costly import Kept, bounded, spoken
from metrobench.load.driver import PAUSE, encode_spoken

CHUNKS = np.arange(1 + 3 * 5, dtype=np.int16).repeat(4).reshape(-1, 4)
TABLE = ChunkTable(CHUNKS, ((11, 5), (1, 5), (6, 5)))


class Codec(EndpointBase):
    costly = True
    calls: list[list[bytes]]

    def encode_clip(self, chunks: list[bytes]) -> list[bytes]:  # type: ignore[override]
        self.calls.append(chunks)
        return [b"<%b>" % chunk for chunk in chunks]

    personal = True


def codec() -> Codec:
    made = Codec("ws://h/", unit=1.0, first_ready=1.0)
    made.calls = []
    return made


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50)), min_size=1), st.integers(0, 500))
def test_runs_are_taken_until_they_last(runs: list[tuple[int, int]], chunks: int) -> None:
    taken = bounded(itertools.cycle(runs), chunks)
    lengths = [count for _, count in taken]
    assert sum(lengths) >= chunks
    assert sum(lengths[:-1]) < chunks or not taken


def test_only_spoken_clips_count_wherever_a_run_begins_in_them() -> None:
    assert spoken(TABLE, [[(SILENCE, 7), (13, 2)], [(1, 5), (3, 1)]]) == [(1, 5), (11, 5)]
    assert spoken(TABLE, [[(SILENCE, 7)]]) == []


def test_spoken_clips_and_the_pause_are_encoded_as_pieces_and_the_rest_is_not() -> None:
    endpoint = codec()
    frames, pause = encode_spoken(TABLE, endpoint, [(6, 5)], Kept(None))
    assert [len(call) for call in endpoint.calls] == [5, PAUSE]
    assert pause == 16 and len(frames) == 16 + PAUSE
    assert frames[:6] == [b""] * 6 and frames[11:16] == [b""] * 5
    assert frames[6:11] == [b"<%b>" % TABLE.pcm(chunk) for chunk in range(6, 11)]
    assert set(frames[pause:]) == {b"<%b>" % TABLE.pcm(SILENCE)}


def test_a_clip_is_encoded_once_for_all_runs_with_the_same_table(tmp_path: Path) -> None:
    kept = tmp_path / ".audio.codec"
    first = encode_spoken(TABLE, codec(), [(6, 5)], Kept(kept))
    again = codec()
    assert encode_spoken(TABLE, again, [(6, 5)], Kept(kept)) == first
    assert [len(call) for call in again.calls] == [PAUSE]
    encode_spoken(TABLE, again, [(1, 5), (6, 5)], Kept(kept))
    assert Kept(kept).get(1) and Kept(kept).get(6)


def test_a_damaged_or_unwritable_store_only_costs_time(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\xc1nonsense")
    assert Kept(broken).get(6) is None
    lost = Kept(tmp_path / "none" / "store")
    lost.put(6, [b"a"])
    lost.save()
    assert lost.get(6) == [b"a"]
