from __future__ import annotations

import base64
import json
import resource
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from metrobench.corpus.mix import Noise
from metrobench.corpus.stream import SILENCE, ChunkTable, build_table, save_table
from metrobench.endpoints.realtime import RealtimeEndpoint
from metrobench.errors import UsageError
from metrobench.load.driver import PAUSE, audio_table, encode_table, lay_out
from metrobench.load.files import allow_files
from metrobench.load.spec import LoadSpec

SPEC = LoadSpec(
    protocol="realtime",
    url="ws://h/",
    sessions=1,
    budget=1.0,
    unit=1.0,
    first_ready=1.0,
    seed=1,
    clips=(Path("a"),),
    cut_frames=0,
    frames=1,
    max_frames=1,
    spool=Path("spool"),
)


def payload(frame: bytes) -> bytes:
    """Unmask a client's frame of 126 to 65,535 bytes."""
    size = int.from_bytes(frame[2:4], "big")
    key, masked = frame[4:8], frame[8:]
    assert len(masked) == size
    return bytes(byte ^ key[place % 4] for place, byte in enumerate(masked))


def test_every_chunk_is_encoded_once_as_it_is(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-3000, 3000, 2000).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", samples, 16_000, subtype="PCM_16")
    clips = (tmp_path / "a.wav",)
    table = build_table(clips, 16_000)
    frames, pause = encode_table(table, RealtimeEndpoint("ws://h/", unit=1.0, first_ready=1.0))
    assert table.clips == ((1, 7),)
    assert pause == 8
    for chunk, frame in enumerate(frames[:pause]):
        message = json.loads(payload(frame))
        assert message["type"] == "input_audio_buffer.append"
        assert base64.b64decode(message["audio"]) == table.pcm(chunk)


@pytest.mark.parametrize("bed", [(SILENCE, 1), (2, 3)])
def test_pauses_are_a_row_of_frames_that_repeats_the_bed(bed: tuple[int, int]) -> None:
    chunks = np.arange(5 * 320, dtype=np.int16).reshape(5, 320)
    table = ChunkTable(chunks, ((1, 1),), bed)
    frames, pause = encode_table(table, RealtimeEndpoint("ws://h/", unit=1.0, first_ready=1.0))
    assert len(frames) == pause + PAUSE
    first, count = bed
    assert frames[pause : pause + 6] == [frames[first + place % count] for place in range(6)]


def test_prepared_audio_is_what_would_be_decoded(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(1).uniform(-0.3, 0.3, 16_000), 16_000)
    clips, noise = (tmp_path / "a.wav",), Noise(10.0, "pink")
    spec = replace(SPEC, clips=clips, noise=noise, gain=-6.0)
    save_table(tmp_path / "t.npz", build_table(clips, 16_000, noise, -6.0))
    decoded, loaded = audio_table(spec), audio_table(replace(spec, table=tmp_path / "t.npz"))
    assert np.array_equal(decoded.chunks, loaded.chunks)
    assert (decoded.clips, decoded.bed) == (loaded.clips, loaded.bed)


def test_the_spec_travels_whole_as_json() -> None:
    spec = replace(SPEC, noise=Noise(-3.0, "babble"), gain=6.0, talk="dialogue", table=Path("t.npz"))
    line = msgspec.json.encode(spec, enc_hook=str)
    assert msgspec.json.decode(line, type=LoadSpec, dec_hook=lambda kind, value: kind(value)) == spec


def test_silence_is_laid_out_as_a_row_of_chunks() -> None:
    runs = lay_out(iter([(5, 3), (SILENCE, 1203), (9, 1)]), 100)
    assert list(runs) == [(5, 3), (100, PAUSE), (100, PAUSE), (100, 1203 - 2 * PAUSE), (9, 1)]


def test_file_limit_is_raised_and_never_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 20_000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    allow_files(100)
    assert asked == []
    allow_files(1000)
    assert asked == [(2064, 20_000)]
    with pytest.raises(UsageError, match="open files"):
        allow_files(10_000)
