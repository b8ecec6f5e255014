from __future__ import annotations

import base64
import json
import resource
from pathlib import Path

import numpy as np
import pytest
import soundfile

from metrobench.corpus.stream import SILENCE, build_table
from metrobench.endpoints.realtime import RealtimeEndpoint
from metrobench.errors import UsageError
from metrobench.load.driver import PAUSE, encode_corpus, lay_out
from metrobench.load.files import allow_files


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
    frames, spans = encode_corpus(clips, RealtimeEndpoint("ws://h/", unit=1.0, first_ready=1.0))
    table = build_table(clips, 16_000)
    assert spans == table.clips == ((1, 7),)
    assert len(frames) == 8
    for chunk, frame in enumerate(frames):
        message = json.loads(payload(frame))
        assert message["type"] == "input_audio_buffer.append"
        assert base64.b64decode(message["audio"]) == table.pcm(chunk)


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
