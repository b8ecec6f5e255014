"""`--max-time`: a search ends before a run that would not fit, with what it found by then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from metrobench import open_probe as open_probe_module
from metrobench.cli.main import cli
from metrobench.open_probe import OpenRun, conclude
from metrobench.probe import Watch
from metrobench.records import Record, read_record
from tests.cli.command import assert_plain_error, in_process
from tests.cli.searches import URL, VirtualRuns
from tests.measure.test_open_system import crowd, run

CAPACITY = 100
RUN = 2.0 + 0.5 + 5.0 + 15.0 + 0.5
"""Seconds of a virtual run of the smoke profile: start, spread of the phases, cut, span, last deadline."""


def search(folder: Path, *options: str) -> tuple[Result, list[Record]]:
    common = ["--endpoint", URL, "--model", "smoke", "--out", str(folder), "--guess", str(CAPACITY)]
    done = CliRunner().invoke(cli, ["capacity", *common, *options])
    return done, [read_record(path) for path in sorted(folder.glob("2*"))]


def mscs(record: Record) -> dict[str, Any]:
    assert record.result is not None
    return record.result["mscs"]


def test_without_a_limit_the_search_converges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = VirtualRuns(CAPACITY).install(monkeypatch)
    done, [record] = search(tmp_path)
    assert done.exit_code == 0
    assert mscs(record)["stop"] == "converged"
    assert mscs(record)["lo"] <= CAPACITY < mscs(record)["hi"]
    assert all(setting.extend_unresolved for _, setting in runs.settings)


def test_a_run_that_would_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = VirtualRuns(CAPACITY).install(monkeypatch)
    began = runs.clock
    _, [record] = search(tmp_path, "--max-time", "80s")
    assert len(runs.settings) == 3
    assert runs.clock - began <= 80.0 < runs.clock - began + RUN
    assert (mscs(record)["stop"], record.status) == ("max-time", "complete")
    assert record.setting["max_time"] == 80.0


@pytest.mark.parametrize(
    ("allowed", "said", "code"),
    [
        ("35s", "MSCS not found: stopped at --max-time (one run passed at 95) ·", 3),
        ("55s", "MSCS not found: stopped at --max-time (one run passed at 95, one failed at 105) ·", 3),
        ("80s", "MSCS at least 95 sessions, no upper end: stopped at --max-time (one failed at 105) ·", 3),
        ("105s", "MSCS [95, 105] sessions · limited by", 0),
    ],
)
def test_what_was_found_by_then_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: str, said: str, code: int
):
    VirtualRuns(CAPACITY).install(monkeypatch)
    done, _ = search(tmp_path, "--max-time", allowed)
    assert said in " ".join(done.stdout.split())
    assert done.exit_code == code


def test_a_lower_end_without_an_upper_one_is_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    VirtualRuns(CAPACITY).install(monkeypatch)
    done, [record] = search(
        tmp_path, "--max-sessions", "50", "--effort", "full", "--duration", "15s", "--max-time", f"{5 * RUN:.0f}s"
    )
    assert (mscs(record)["lo"], mscs(record)["hi"]) == (50, None)
    assert "MSCS at least 50 sessions, no upper end: stopped at --max-time ·" in " ".join(done.stdout.split())
    assert done.exit_code == 3


def test_near_the_end_runs_are_not_prolonged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = VirtualRuns(CAPACITY).install(monkeypatch)
    search(tmp_path, "--max-time", "90s")
    assert [setting.extend_unresolved for _, setting in runs.settings] == [True, False, False]


def test_a_server_that_starts_more_slowly_than_thought_is_learnt_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = VirtualRuns(CAPACITY, start=40.0).install(monkeypatch)
    search(tmp_path, "--max-time", "110s")
    assert len(runs.settings) == 1


def test_a_run_that_is_overtaken_by_the_end_counts_as_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    VirtualRuns(CAPACITY, start=200.0).install(monkeypatch)
    done, [record] = search(tmp_path, "--max-time", "60s")
    assert [probe.outcome for probe in record.probes] == ["interrupted"]
    assert (mscs(record)["runs"], mscs(record)["stop"], done.exit_code) == (0, "max-time", 3)


def test_one_run_that_is_overtaken_by_the_end_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    VirtualRuns(CAPACITY, start=200.0).install(monkeypatch)
    common = ["--endpoint", URL, "--model", "smoke", "--out", str(tmp_path), "--sessions", "4"]
    done = CliRunner().invoke(cli, ["run", *common, "--max-time", "2m"])
    assert done.exit_code == 3
    assert "stopped at --max-time" in done.stdout


@pytest.mark.parametrize(("length", "code"), [(10.0, 0), (500.0, 3)])
def test_an_open_system_that_is_overtaken_by_the_end_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: float, code: int
):
    runs = VirtualRuns(CAPACITY).install(monkeypatch)

    def virtual(setting: Any, server: Any, offered: Any, full: bool, seed: int, folder: Path, watch: Watch) -> OpenRun:
        runs.clock += length
        found = conclude(run(crowd()), [], {}, [])
        return replace(found, whole=not watch.interrupted())

    monkeypatch.setattr(open_probe_module, "open_probe", virtual)
    common = ["--endpoint", URL, "--model", "smoke", "--out", str(tmp_path), "--offer", "30", "--hold", "10s"]
    done = CliRunner().invoke(cli, ["ramp", *common, "--max-time", "2m"])
    assert done.exit_code == code
    assert ("stopped at --max-time 2 min" in " ".join(done.stdout.split())) == (code == 3)


def test_a_search_that_ran_out_of_time_can_be_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = VirtualRuns(CAPACITY).install(monkeypatch)
    search(tmp_path, "--max-time", "55s")
    [folder] = tmp_path.glob("2*")
    done, [record] = search(tmp_path, "--resume", str(folder))
    assert (mscs(record)["stop"], done.exit_code) == ("converged", 0)
    assert [sessions for sessions, _ in runs.settings] == [95, 105, 105, 95]


def test_several_policies_share_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = VirtualRuns(CAPACITY).install(monkeypatch)
    began = runs.clock
    _, records = search(tmp_path, "--kv", "unbounded,window:128", "--max-time", "160s")
    assert [record.setting["max_time"] for record in records] == pytest.approx([80.0, 160.0 - 3 * RUN])
    assert runs.clock - began <= 160.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["capacity", "--max-time", "10s", "--guess", "50"], ["--max-time 10 s is too short", "about"]),
        (["run", "--sessions", "4", "--duration", "5m", "--max-time", "5m"], ["--max-time 5 min", "--duration"]),
        (["capacity", "--max-time", "soon"], ["--max-time", "not a time"]),
        (["run", "--sessions", "4", "--max-time", "0s"], ["--max-time"]),
        (["ramp", "--offer", "64", "--hold", "30s", "--max-time", "30s"], ["--max-time 30 s is too short", "--hold"]),
    ],
)
def test_a_time_in_which_nothing_fits_is_refused_before_anything_starts(
    tmp_path: Path, arguments: list[str], words: list[str]
):
    assert_plain_error(in_process(*arguments, "--model", "smoke", cwd=tmp_path), 2, *words)
    assert list(tmp_path.iterdir()) == []
