"""Records side by side on a terminal: never wider than it, whatever a record holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrobench.records import Record, read_record
from metrobench.report.comparison import numbered, table
from tests.report import made

ENDPOINTS = ["ws://127.0.0.1:8931/v1/realtime", f"wss://{'speech.' * 30}example/v1/realtime?model=x"]


def records(folder: Path, **setting: object) -> list[Record]:
    found = [read_record(path) for path in (made.search(folder), made.run(folder))]
    for record in found:
        record.setting |= setting
    return found


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_endpoint_is_named_by_its_host_and_cut_where_it_is_too_long(tmp_path: Path, endpoint: str) -> None:
    shown = numbered(records(tmp_path, endpoint=endpoint))
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "ws://" not in shown
    assert "127.0.0.1:8931" in shown or "speech.speech.spe…" in shown


def test_many_policies_are_cut(tmp_path: Path) -> None:
    shown = numbered(records(tmp_path, kv="unbounded,window:1024,window:1024+16,recycle:1024"))
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "25 %" in shown and "…" in shown


def test_a_long_error_in_place_of_an_interval_is_cut(tmp_path: Path) -> None:
    [search, _] = records(tmp_path)
    search.result, search.error = None, "the engine died " * 10
    assert all(len(line) <= 80 for line in table([search]).splitlines())


def test_a_check_says_how_many_frames_were_answered_and_no_verdict(tmp_path: Path) -> None:
    [_, run] = records(tmp_path)
    run.kind = "check"
    misses = run.probes[0].verdict["misses"]
    shown = numbered([run])
    assert f"{misses['met'] + misses['late']} of {misses['planned']} answered" in shown
    assert "passed" not in shown
