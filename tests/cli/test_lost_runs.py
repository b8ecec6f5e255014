"""What would end a run half-way is seen before anything is loaded."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from metrobench.cli.main import cli
from metrobench.errors import UsageError
from tests.cli.searches import URL, VirtualRuns


def invoke(folder: Path, *arguments: str) -> Result:
    common = ["--endpoint", URL, "--model", "smoke", "--out", str(folder / "out")]
    return CliRunner().invoke(cli, [*arguments, *common], catch_exceptions=True)


def files(monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (min(hard, 1024), hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)


def test_a_run_with_more_sessions_than_open_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files(monkeypatch, 1024)
    done = invoke(tmp_path, "run", "--sessions", "1000")
    assert isinstance(done.exception, UsageError) and "open files" in done.exception.message
    assert not (tmp_path / "out").exists()


def test_a_search_stays_within_the_open_files_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files(monkeypatch, 164)
    runs = VirtualRuns(capacity=1000).install(monkeypatch)
    done = invoke(tmp_path, "capacity", "--guess", "40")
    assert "--max-sessions lowered to 50: 164 open files are allowed" in done.stderr
    assert max(sessions for sessions, _ in runs.settings) == 50


@pytest.mark.parametrize("command", [["run", "--sessions", "100"], ["capacity", "--guess", "40"]])
def test_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    done = invoke(tmp_path, *command)
    assert isinstance(done.exception, UsageError)
    assert done.exception.message.startswith("1 MiB are free")
    assert "--out" in done.exception.hint
    assert not (tmp_path / "out").exists()
