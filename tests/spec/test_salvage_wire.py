"""A command killed with SIGKILL while it streams: the report turns what it left into a record."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from metrobench.load import spool
from metrobench.lock import held
from metrobench.records import read_facts, read_record, read_telemetry
from tests.cli.command import metrobench
from tests.servers.truth import Script, TruthServer

pytestmark = pytest.mark.realtime

UNIT = 0.5
PATIENCE = 60.0
"""Seconds to wait for something that must happen."""


def recorded(folder: Path) -> int:
    """Answers in the raw facts so far."""
    if not (folder / "spool" / "telemetry.jsonl").is_file():
        return 0
    done = spool.read_facts(folder / "spool").frames["t_done"]
    return int((done == done).sum())


def test_nothing_that_was_recorded_is_lost(tmp_path: Path) -> None:
    with TruthServer(Script(unit=UNIT, first_ready=UNIT)) as server:
        arguments = ["--sessions", "4", "--duration", "60s", "--model", "smoke", "--endpoint", server.url, "--quiet"]
        command = subprocess.Popen(
            [sys.executable, "-m", "metrobench", "run", *arguments, "--out", str(tmp_path / "reports")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE
        while not (folders := list((tmp_path / "reports").glob("2*"))) or recorded(folders[0]) < 60:
            assert time.monotonic() < deadline and command.poll() is None
            time.sleep(0.1)
        folder = folders[0]
        live = metrobench("report", cwd=tmp_path)
        assert live.code == 0
        assert "still being measured" in live.out.replace("\n      ", " ")
        before = recorded(folder)
        command.send_signal(signal.SIGKILL)
        command.wait()
    assert (folder / ".reserve").exists()
    assert not held(folder)

    done = metrobench("report", cwd=tmp_path)
    assert done.code == 0, done
    assert "interrupted the command was killed" in done.out
    record = read_record(folder)
    assert record.status == "interrupted"
    assert [probe.outcome for probe in record.probes] == ["interrupted"]
    assert record.probes[0].server["url"] == server.url
    answered = read_facts(folder).frames["t_done"]
    assert (answered == answered).sum() >= before
    assert len(read_telemetry(folder)["t"]) > 0
    assert not (folder / ".reserve").exists()
    assert not (folder / "spool").exists()
    assert (folder / "index.html").is_file()
