"""What becomes of the load process itself: unreachable servers, its own lateness, its own death."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from metrobench.errors import UnreachableError, UsageError
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent
from metrobench.worker.cores import threads_on
from tests.servers.streaming import make_spec, stream, stream_once
from tests.servers.truth import Script, TruthServer

pytestmark = pytest.mark.realtime

SCRIPT = Script(unit=0.1, first_ready=0.1)


def failure(url: str, folder: Path, **changes: object) -> LoadEvent:
    with LoadProcess(make_spec(url, folder, SCRIPT, **changes)) as load:
        load.start()
        events = list(load.events(60.0))
    assert events[-1].kind == "failed"
    return events[-1]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 30.0
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "not a WebSocket endpoint: it answers HTTP 200"),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP 404"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n", "not a WebSocket endpoint"),
        ("-", "no WebSocket handshake within 0.5 s"),
    ],
)
def test_what_is_no_websocket_is_named(tmp_path: Path, raw: str, words: str) -> None:
    with TruthServer(Script(raw=raw)) as server:
        event = failure(server.url, tmp_path, connect_timeout=0.5)
    assert words in event.message
    assert server.url in event.message
    assert isinstance(event.error(), UnreachableError)


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    event = failure(f"ws://127.0.0.1:{port}/", tmp_path)
    assert "connection refused" in event.message
    assert event.hint


def test_tls_to_a_server_without_it(tmp_path: Path) -> None:
    with TruthServer(Script(raw="HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        event = failure(server.url.replace("ws:", "wss:"), tmp_path)
    assert event.cause == "unreachable"
    assert "TLS failed" in event.message


def test_many_sessions_to_a_dead_address_fail_fast(tmp_path: Path) -> None:
    with TruthServer(Script(raw="-")) as server:
        began = time.monotonic()
        failure(server.url, tmp_path, sessions=2000, connect_timeout=0.5)
        assert time.monotonic() - began < 30.0


def test_bad_audio_is_wrong_usage_and_named(tmp_path: Path) -> None:
    clip = tmp_path / "noise.wav"
    clip.write_bytes(b"RIFF and then nothing")
    event = failure("ws://127.0.0.1:9/", tmp_path, clips=(clip,))
    assert "noise.wav" in event.message
    assert isinstance(event.error(), UsageError)


def test_frames_of_another_length_are_wrong_usage(tmp_path: Path) -> None:
    with TruthServer(Script(unit=0.2, first_ready=0.2)) as server:
        event = failure(server.url, tmp_path)
    assert "a frame is 200 ms of audio, not 100 ms" in event.message
    assert isinstance(event.error(), UsageError)


def test_cores_that_do_not_exist_are_wrong_usage(tmp_path: Path) -> None:
    event = failure("ws://127.0.0.1:9/", tmp_path, cores=frozenset({4095}))
    assert "4095" in event.message
    assert isinstance(event.error(), UsageError)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_load_process_has_its_own_core_though_its_parent_keeps_off_it() -> None:
    parent, own = sorted(os.sched_getaffinity(0))[:2]
    seen: list[set[int]] = []

    def during(load: LoadProcess, event: LoadEvent) -> None:
        if event.kind == "progress" and load.pid is not None:
            seen.append(os.sched_getaffinity(load.pid))
        if event.kind == "judge":
            load.stop()

    with threads_on(frozenset({parent})):
        stream_once(SCRIPT, during, frames=5, cores=frozenset({own}))
    assert seen
    assert all(cores == {own} for cores in seen)


def test_unknown_protocol_is_wrong_usage(tmp_path: Path) -> None:
    assert isinstance(failure("ws://127.0.0.1:9/", tmp_path, protocol="smoke").error(), UsageError)


def test_a_client_held_up_is_ambiguous_and_never_a_false_miss() -> None:
    def during(load: LoadProcess, event: LoadEvent) -> None:
        if event.kind == "progress" and event.t < 2.0 and load.pid is not None:
            os.kill(load.pid, signal.SIGSTOP)
            time.sleep(1.5)
            os.kill(load.pid, signal.SIGCONT)
        if event.kind == "judge":
            load.stop()

    outcome = stream_once(SCRIPT, during, frames=30, budget=0.5)
    judge = outcome.last("judge")
    assert judge.missed == 0
    assert judge.ambiguous > 0
    assert judge.due == 4 * 30
    stalls = outcome.facts.stalls
    assert (stalls[:, 1] - stalls[:, 0]).max() >= 1.4
    assert outcome.facts.frames["lag_max"].max() >= 1.0


def test_after_a_hold_up_everything_is_sent_and_the_schedule_has_not_moved() -> None:
    def during(load: LoadProcess, event: LoadEvent) -> None:
        if event.kind == "progress" and event.t < 2.0 and load.pid is not None:
            os.kill(load.pid, signal.SIGSTOP)
            time.sleep(0.5)
            os.kill(load.pid, signal.SIGCONT)
        if event.kind == "judge":
            load.stop()

    outcome = stream_once(SCRIPT, during, frames=30)
    rows = outcome.measured()
    assert not np.isnan(rows["t_sent"]).any() and not np.isnan(rows["t_done"]).any()
    schedule = outcome.spec.schedule()
    expected = [schedule.frame_ready(int(row["session"]), int(row["frame"])) for row in rows]
    assert rows["t_ready"] == pytest.approx(expected)
    until = (outcome.facts.t_stop - schedule.phases) / 0.02
    assert outcome.facts.lag_counts.sum() == pytest.approx(until.sum(), abs=40)


def test_a_killed_client_leaves_its_facts() -> None:
    def during(load: LoadProcess, event: LoadEvent) -> None:
        if event.kind == "progress" and event.t > 1.5 and load.pid is not None:
            os.kill(load.pid, signal.SIGKILL)

    outcome = stream_once(SCRIPT, during, frames=30)
    assert outcome.last("died").message == "the load process was killed by signal 9"
    answered = outcome.facts.frames[~np.isnan(outcome.facts.frames["t_done"])]
    assert len(answered) > 10
    assert outcome.facts.t_stop > 1.5


def test_signals_for_the_terminal_do_not_reach_the_client() -> None:
    def during(load: LoadProcess, event: LoadEvent) -> None:
        if event.kind == "started" and load.pid is not None:
            assert os.getpgid(load.pid) != os.getpgid(0)
            os.kill(load.pid, signal.SIGINT)
            os.kill(load.pid, signal.SIGTERM)
        if event.kind == "judge":
            load.stop()

    outcome = stream(SCRIPT, during)
    assert not len(outcome.missed())


def test_stop_in_the_middle_keeps_what_was_measured() -> None:
    pids: list[int] = []

    def during(load: LoadProcess, event: LoadEvent) -> None:
        if event.kind == "progress" and load.pid is not None:
            pids.append(load.pid)
            load.stop()

    outcome = stream_once(SCRIPT, during, frames=40)
    assert wait_gone(pids[0])
    assert outcome.last("stopped").message == "asked to stop"
    assert len(outcome.facts.frames) > 0
    assert outcome.facts.frames["t_ready"].max() <= outcome.facts.t_stop


def test_the_client_dies_with_its_parent(tmp_path: Path) -> None:
    with TruthServer(SCRIPT) as server:
        code = (
            "import sys, time; from pathlib import Path\n"
            "from metrobench.load.process import LoadProcess\n"
            "from tests.servers.streaming import make_spec\n"
            "from tests.servers.truth import Script\n"
            "spec = make_spec(sys.argv[1], Path(sys.argv[2]), Script(unit=0.1, first_ready=0.1), frames=40)\n"
            "load = LoadProcess(spec); load.start()\n"
            "for event in load.events(60):\n"
            "    if event.kind == 'started': print(load.pid, flush=True)\n"
        )
        root = Path(__file__).parents[2]
        parent = subprocess.Popen(
            [sys.executable, "-c", code, server.url, str(tmp_path)], stdout=subprocess.PIPE, cwd=root
        )
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
        parent.communicate()
        assert wait_gone(pid)
