"""Questions over the wire, at a server that knows them by their sound: the whole command in real time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from metrobench.quality.checks import BROKEN
from metrobench.quality.spoken.answer import Stage
from tests.cli.command import Finished, assert_plain_error, in_process, metrobench
from tests.servers.quizmaster import Quiz, QuizServer
from tests.servers.truth import Script, TruthServer

UNIT = 0.5
SHORT = ("--model", "smoke", "--sessions", "8", "--duration", "12s", "--deadline", "600ms", "--at-once", "40")


def ask(folder: Path, *more: str, **script: object) -> tuple[Finished, dict[str, Any]]:
    """The command against a fresh server, and its record."""
    with QuizServer(Quiz(unit=UNIT, first_ready=UNIT, **script)) as server:  # type: ignore[arg-type]
        done = metrobench("quality", "--endpoint", server.url, *SHORT, *more, cwd=folder)
    [path] = (folder / "reports").iterdir()
    record = json.loads((path / "run.json").read_bytes())
    checks = ((record["result"] or {}).get("quality") or {}).get("checks", [])
    if any(each["name"] == "the client kept its own time" and each["state"] == BROKEN for each in checks):
        pytest.skip("this machine is too busy to measure: the probe said so")
    return done, record


def stages(folder: Path) -> list[Stage]:
    """What each stage kept, in order."""
    files = sorted(folder.glob("reports/*/probes/*/answers.json"))
    return [msgspec.json.decode(file.read_bytes(), type=Stage) for file in files]


@pytest.mark.realtime
def test_an_endpoint_that_goes_wrong_with_age_is_found_out(tmp_path: Path) -> None:
    done, record = ask(tmp_path, wrong_from=6.0)
    assert done.code == 0, done
    assert "The endpoint stops answering right" in " ".join(done.out.split())
    assert [line for line in done.out.splitlines() if len(line) > 80] == []
    long = stages(tmp_path)[2]
    for reply in long.replies:
        assert reply.verdict == ("right" if reply.age < 6.0 else "wrong"), reply
    [folder] = (tmp_path / "reports").iterdir()
    assert not (folder / "wire").exists()
    assert (folder / "index.html").is_file()
    shown = metrobench("report", str(folder), cwd=tmp_path)
    assert shown.code == 0
    assert record["result"]["quality"]["believed"]


@pytest.mark.realtime
def test_late_and_missing_answers_are_not_wrong(tmp_path: Path) -> None:
    done, _ = ask(tmp_path, "--quiet", slow_from=6.0, slow=0.9, every=2)
    assert done.code == 3, done
    assert "Inconclusive" in done.out
    for reply in stages(tmp_path)[2].replies:
        expected = "none" if reply.place % 2 else "right" if reply.age < 6.0 else "late"
        assert reply.verdict == expected, reply


@pytest.mark.realtime
def test_an_endpoint_that_is_silent_proves_nothing(tmp_path: Path) -> None:
    done, record = ask(tmp_path, "--quiet", mute_from=0.0)
    assert_plain_error(done, 3, "answers 0 of", "0 wrong")
    assert record["status"] == "failed"


@pytest.mark.realtime
def test_ctrl_c_keeps_what_was_heard(tmp_path: Path) -> None:
    with QuizServer(Quiz(unit=UNIT, first_ready=UNIT)) as server:
        words = [sys.executable, "-m", "metrobench", "quality", "--endpoint", server.url, *SHORT]
        running = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not list(tmp_path.glob("reports/*/probes/01-*/answers.json")):
            assert running.poll() is None
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in said
    [path] = tmp_path.glob("reports/*/run.json")
    assert json.loads(path.read_bytes())["status"] == "interrupted"


def test_an_endpoint_of_other_frames_is_refused(tmp_path: Path) -> None:
    with TruthServer(Script(unit=0.2)) as server:
        done = metrobench("quality", "--endpoint", server.url, *SHORT, "--quiet", cwd=tmp_path)
    assert_plain_error(done, 2, "--model")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--endpoint", "ws://127.0.0.1:1/", "--kv", "window:128"), "--kv does not go with --endpoint"),
        (("--duration", "1m"), "--duration goes with --endpoint"),
        (("--endpoint", "ws://127.0.0.1:1/", "--duration", "soon"), "--duration"),
        (("--endpoint", "ws://127.0.0.1:1/", "--language", "xx"), "no clips marked as 'xx'"),
        (("--endpoint", "http://127.0.0.1:1/"), "is not a WebSocket address"),
        (
            ("--endpoint", "ws://127.0.0.1:1/", "--protocol", "kyutai-stt", "--model", "kyutai-stt"),
            "kyutai-stt brings no answers to questions",
        ),
    ],
)
def test_wrong_usage_is_said_in_two_lines(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert_plain_error(in_process("quality", *arguments, cwd=tmp_path), 2, words)


def test_where_nobody_listens_that_is_said_at_once(tmp_path: Path) -> None:
    done = in_process("quality", "--endpoint", "ws://127.0.0.1:1/", "--model", "smoke", cwd=tmp_path)
    assert_plain_error(done, 4, "nothing answers at")
    assert not (tmp_path / "reports").exists()
