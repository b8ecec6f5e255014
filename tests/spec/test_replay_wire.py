"""A recorded session is said again: the same frames late, the same missed, the same end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.endpoints.base import Access
from metrobench.errors import UsageError
from metrobench.load.process import LoadProcess
from metrobench.load.replay import serve
from metrobench.load.tape import Head, Recorder, Tape, read_tape
from metrobench.measure.facts import RunFacts
from tests.servers.json_peers import MODEL, PEERS
from tests.servers.streaming import make_spec, server_of
from tests.servers.truth import Script
from tests.spec.test_hostile_wire import script

TOKEN = "s3cret-t0ken"
FRAMES = 6
HEAD = Head("vllm-realtime", 0.08, 0.5625, 16_000, False)


@contextmanager
def replaying(tape: Tape) -> Iterator[str]:
    """A server in a thread of its own."""
    loop = asyncio.new_event_loop()
    server, port = loop.run_until_complete(serve(tape, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"ws://127.0.0.1:{port}/v1/realtime"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    server.close()
    loop.close()


def stream(url: str, folder: Path, of: Script, **changes: Any) -> RunFacts:
    """A short run."""
    spread = of.unit if of.dialect in PEERS and PEERS[of.dialect].frame_class == "D" else None
    access = Access(model=MODEL, token=TOKEN)
    usual = {"sessions": 1, "cut_frames": 0, "frames": FRAMES, "max_frames": FRAMES, "budget": 0.4, "spread": spread}
    spec = make_spec(url, folder, of, access=access, **(usual | changes))
    with LoadProcess(spec) as load:
        load.start()
        for event in load.events(60.0):
            if event.kind == "judge":
                load.stop()
        return load.facts()


def record(of: Script, folder: Path) -> tuple[Tape, RunFacts]:
    """A run against a scripted server, and what was recorded of it."""
    path = folder / "wire.jsonl"
    with server_of(of.dialect)(of) as server:
        facts = stream(server.url, folder / "first", of, record_wire=path)
    return read_tape(path), facts


def late(facts: RunFacts) -> np.ndarray:
    return (facts.frames["t_done"] - facts.frames["t_ready"])[:FRAMES]


@pytest.mark.realtime
@pytest.mark.parametrize(
    "name",
    ["moshi", "vllm-realtime", "sglang-omni"]
    + [pytest.param(each, marks=pytest.mark.thorough) for each in ("kyutai-stt", "openai", "unmute", "vllm-omni")],
)
def test_a_replayed_session_is_as_late_as_the_recorded_one(name: str, tmp_path: Path) -> None:
    """Every other frame takes longer, and the last two are never answered."""
    of = script(name, latency=0.15, jitter=0.1, silent_from=[(0, FRAMES - 2)])
    tape, first = record(of, tmp_path)
    with replaying(tape) as url:
        again = stream(url, tmp_path / "second", of)
    before, after = late(first), late(again)
    assert np.isfinite(before).tolist() == np.isfinite(after).tolist() == [True] * (FRAMES - 2) + [False] * 2
    assert abs(np.median((after - before)[: FRAMES - 2])) < 0.03
    assert min(after[1] - after[0], after[3] - after[2]) > 0.03
    assert not any(session.refused or session.t_closed is not None for session in again.sessions)


@pytest.mark.realtime
def test_the_end_is_the_recorded_one_for_every_session(tmp_path: Path) -> None:
    of = script("sglang-omni", close_at=[(0, 4, 1011, f"no more for {TOKEN}")])
    tape, _ = record(of, tmp_path)
    with replaying(tape) as url:
        again = stream(url, tmp_path / "second", of, sessions=3)
    assert {(session.close_code, session.reason) for session in again.sessions} == {(1011, "no more for ***")}


@pytest.mark.realtime
def test_no_secret_and_no_audio_stands_in_a_recording(tmp_path: Path) -> None:
    of = script("openai", refuse=[0])
    path = tmp_path / "wire.jsonl"
    with server_of(of.dialect)(of) as server:
        stream(server.url, tmp_path / "first", of, record_wire=path)
    words = path.read_text()
    assert "too many sessions for" in words and TOKEN not in words
    assert "input_audio_buffer.append" not in words


@pytest.mark.realtime
def test_the_commands_record_and_replay(tmp_path: Path) -> None:
    tape, address = tmp_path / "wire.jsonl", ["--model", "voxtral-realtime", "--protocol", "vllm-realtime"]
    words = [sys.executable, "-m", "metrobench"]
    own = [*address, "--served-model", MODEL, "--out", str(tmp_path / "out"), "--json"]
    of = script("vllm-realtime", latency=0.01)
    with server_of(of.dialect)(of) as server:
        where = ["--endpoint", server.url, "--record-wire", str(tape)]
        first = subprocess.run([*words, "check", *own, *where], capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stderr
    serving = subprocess.Popen([*words, "replay", str(tape), "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    said = [serving.stdout.readline() for _ in range(2)]
    assert "vllm-realtime" in said[0]
    url = said[1].split()[2]
    again = subprocess.run([*words, "check", *own, "--endpoint", url], capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    serving.send_signal(signal.SIGINT)
    assert serving.wait(10) == 128 + signal.SIGINT
    planned = [json.loads(done.stdout)["probes"][0]["verdict"]["misses"] for done in (first, again)]
    assert all(misses["met"] + misses["late"] + misses["ambiguous"] == misses["planned"] for misses in planned)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"", "is empty"),
        (b"hello\n", "no recording"),
        (b"\xff\xfe\n", "no recording"),
        (b'{"protocol":"x","unit":1,"first_ready":1,"sample_rate":1,"binary":false,"wire":9}\n', "version 9"),
    ],
)
def test_what_is_no_recording_is_wrong_usage(written: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "tape"
    path.write_bytes(written)
    with pytest.raises(UsageError, match=words):
        read_tape(path)


def test_a_recording_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    recorder = Recorder(path, HEAD, str)
    recorder.server(b"one", None)
    recorder.server(b"two", 1.0)
    os.truncate(path, path.stat().st_size - 3)
    assert [entry.payload for entry in read_tape(path).entries] == [b"one"]


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    path.write_text("mine")
    with pytest.raises(UsageError, match="File exists"):
        Recorder(path, HEAD, str)
    assert path.read_text() == "mine"


@given(st.lists(st.binary(max_size=100), max_size=5), st.booleans())
def test_messages_are_read_as_they_were_written(messages: list[bytes], binary: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tape"
        recorder = Recorder(path, Head("moshi", 0.08, 0.16, 24_000, binary), str)
        for number, message in enumerate(messages):
            recorder.server(message, float(number))
        read = [entry.payload for entry in read_tape(path).entries]
    assert read == (messages if binary else [message.decode("utf-8", "replace").encode() for message in messages])
