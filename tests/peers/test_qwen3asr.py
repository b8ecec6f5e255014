"""vLLM's own realtime API with a tiny Qwen3-ASR: segments of 5 s, and the commands against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from websockets.sync.client import connect

from metrobench.endpoints.base import Access
from metrobench.endpoints.vllm import RATE, SEGMENT
from tests.peers.launch import metrobench, skip_if_busy
from tests.peers.streaming import Talk, stream
from tests.peers.vllm_server import qwen3_asr_server

pytestmark = [pytest.mark.peers, pytest.mark.engine, pytest.mark.timeout(900)]

QWEN = ("--model", "qwen3-asr", "--protocol", "vllm-realtime")
SAMPLES = round(SEGMENT * RATE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of segments."""
    with qwen3_asr_server(tmp_path_factory.mktemp("qwen") / "log") as url:
        yield url


def test_a_segment_needs_exactly_its_five_seconds(server: str) -> None:
    with connect(server) as socket:
        talk = Talk(socket, "transcription.delta")
        talk.hear("session.created")
        talk.say(type="session.update", model="tiny")
        talk.say(type="input_audio_buffer.commit")
        talk.send(SAMPLES - 1)
        assert talk.answers(0)
        talk.send(1)
        talk.hear("transcription.delta")


def test_segments_are_answered_after_their_audio(server: str, tmp_path: Path) -> None:
    changes = {"access": Access(model="tiny"), "frames": 3, "max_frames": 3, "budget": SEGMENT}
    events, facts = stream("vllm-realtime", server, tmp_path, 2.0, RATE, **changes)
    rows = facts.frames[:3]
    late, first = rows["t_done"] - rows["t_ready"], rows["t_first"] - rows["t_ready"]
    assert np.isfinite(late).all()
    assert 0.0 < first.min() < 1.0
    assert (first <= late).all() and late.max() < SEGMENT
    assert events[-1].errors == 0


def test_check_counts_segments(server: str, tmp_path: Path) -> None:
    words = ["--served-model", "tiny", "--endpoint", server, "--out", str(tmp_path)]
    code, record = metrobench("check", *QWEN, *words)
    skip_if_busy(record)
    assert code == 0
    assert record["setting"]["frame_class"] == "C"
