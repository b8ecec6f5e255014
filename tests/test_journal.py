"""The journal of a run that may be killed at any moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrobench.errors import UsageError
from metrobench.journal import Journal, read_begun, read_samples
from tests.report.made import begun, plan


def test_what_is_noted_is_read_back(tmp_path: Path) -> None:
    journal, note = Journal(tmp_path / "spool"), begun(plan())
    journal.begin(note)
    journal.sample([{"t": 1.0, "steal": None}])
    journal.sample([{"t": 1.5}, {"t": 2.0}])
    assert read_begun(tmp_path / "spool") == note
    assert read_samples(tmp_path / "spool") == [{"t": 1.0, "steal": None}, {"t": 1.5}, {"t": 2.0}]


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "telemetry.jsonl").write_text('{"t": 1.0}\n{"t": 1.')
    assert read_samples(tmp_path) == [{"t": 1.0}]


def test_nothing_noted_is_nothing_read(tmp_path: Path) -> None:
    assert read_begun(tmp_path) is None
    assert read_samples(tmp_path) == []


def test_damaged_telemetry_is_named(tmp_path: Path) -> None:
    (tmp_path / "telemetry.jsonl").write_text("what\n")
    with pytest.raises(UsageError, match="telemetry"):
        read_samples(tmp_path)


def test_a_disk_that_takes_nothing_costs_the_run_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "spool")
    journal.begin(begun(plan()))
    journal.sample([{"t": 1.0}])
