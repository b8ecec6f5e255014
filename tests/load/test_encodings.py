"""Wire economy: every chunk is encoded once for a run, however many sessions speak it, and none while it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metrobench.corpus.manifest import default_clips
from metrobench.corpus.stream import build_table, save_table
from metrobench.endpoints import registry
from metrobench.endpoints.base import Access
from metrobench.load.driver import PAUSE, Driver
from metrobench.load.finish import finisher
from metrobench.load.spec import LoadSpec
from metrobench.load.spool import reserve

COSTLY = ("moshi", "unmute")
OWN = {"moshi": (0.08, 24_000), "kyutai-stt": (0.08, 24_000), "vllm-realtime": (0.08, 16_000)}
FEW, MANY = 2, 60


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Prepared audio by its rate."""
    folder = tmp_path_factory.mktemp("tables")
    found = {}
    for rate in (16_000, 24_000):
        found[rate] = folder / f"{rate}.npz"
        save_table(found[rate], build_table(default_clips()[:2], rate))
    return found


class Counted:
    """Counts what an endpoint's class encodes, in chunks."""

    def __init__(self, name: str, patch: pytest.MonkeyPatch) -> None:
        self.chunks = 0
        kind = registry._find(name)
        one, several = kind.encode_chunk, kind.encode_clip

        def encode_chunk(endpoint: Any, pcm: bytes) -> bytes:
            self.chunks += 1
            return one(endpoint, pcm)

        def encode_clip(endpoint: Any, chunks: list[bytes]) -> list[bytes]:
            self.chunks += len(chunks)
            return several(endpoint, chunks)

        # what is not costly encodes clips chunk by chunk
        patch.setattr(kind, *("encode_clip", encode_clip) if name in COSTLY else ("encode_chunk", encode_chunk))


def driver(name: str, sessions: int, folder: Path, tables: dict[int, Path]) -> Driver:
    """A load process's run, before its first connection."""
    stream = registry.fit(name, *OWN.get(name, (1.0, 16_000)))
    folder.mkdir()
    table = folder / "table.npz"
    table.hardlink_to(tables[stream.sample_rate])
    spec = LoadSpec(
        protocol=name,
        url=f"{registry.schemes(name)[0]}://127.0.0.1:9/",
        sessions=sessions,
        budget=1.0,
        unit=stream.unit,
        first_ready=stream.first_ready,
        sample_rate=stream.sample_rate,
        seed=1,
        clips=default_clips()[:2],
        table=table,
        cut_frames=0,
        frames=2,
        max_frames=2,
        spool=folder / "spool",
        access=Access(model="m"),
    )
    reserve(spec)
    return Driver(spec, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", registry.PROTOCOLS)
def test_more_sessions_cost_no_more_encoding(
    name: str, tmp_path: Path, tables: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(name, monkeypatch)
    driver(name, FEW, tmp_path / "few", tables)
    few, counted.chunks = counted.chunks, 0
    made = driver(name, MANY, tmp_path / "many", tables)
    many, counted.chunks = counted.chunks, 0
    distinct = len(made._frames)
    assert 0 < few <= many <= distinct
    assert many == few or name in COSTLY
    finish, said = finisher(made._endpoint), [frame for frame in made._frames if frame] or made._frames
    for session in range(3):
        for number in range(PAUSE):
            frame = said[number % len(said)]
            assert finish is None or isinstance(finish(frame, number, session), bytes)
    assert counted.chunks == 0


@pytest.mark.parametrize("name", [name for name in registry.PROTOCOLS if registry._find(name).numbered])
def test_the_number_of_a_chunk_is_encoded_once_for_all_sessions_that_are_there(
    name: str, tmp_path: Path, tables: dict[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = driver(name, MANY, tmp_path / "many", tables)
    numbers: list[int] = []
    tail = made._endpoint.tail
    monkeypatch.setattr(type(made._endpoint), "tail", lambda _, number: numbers.append(number) or tail(number))
    finish = finisher(made._endpoint)
    assert finish is not None
    for number in range(PAUSE):
        frames = {finish(made._frames[0], number, session) for session in range(MANY)}
        assert len(frames) == 1
    assert numbers == sorted(set(numbers)) and numbers
