"""A command killed in mid-run: its raw facts become a record; a live one is left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metrobench.journal import Journal
from metrobench.load.spec import LoadSpec
from metrobench.load.spool import Spool, reserve
from metrobench.lock import take
from metrobench.measure.facts import SessionFacts
from metrobench.records import RunFolder, read_facts, read_record, read_telemetry
from metrobench.report.salvage import WORDS
from metrobench.report.stored import open_record
from tests.report import made

SESSIONS = 20
T0 = 503.0
"""When the killed run's schedule began; its journal began at 500."""


def spool(place: Path, until: float) -> None:
    """The raw facts of a run that was killed `until` seconds after it started: every answer took 0.2 s."""
    of = made.plan(SESSIONS)
    spec = LoadSpec(
        protocol="realtime",
        url="ws://h/",
        sessions=SESSIONS,
        budget=of.budget,
        unit=of.unit,
        first_ready=of.unit,
        seed=1,
        clips=(Path("a"),),
        cut_frames=of.cut_frames,
        frames=of.frames,
        max_frames=of.frames,
        spool=place / "spool",
    )
    journal = Journal(spec.spool)
    journal.begin(made.begun(of))
    reserve(spec)
    if not until:
        return
    raw = Spool(spec.spool)
    raw.begin(T0)
    table = raw.table().reshape(-1)
    for row in np.flatnonzero(table["t_ready"] <= until - 0.2):
        ready = float(table["t_ready"][row])
        raw.sent(int(row), ready + 0.001, 0.001)
        raw.first(int(row), ready + 0.1)
        raw.done(int(row), ready + 0.2, 4, 1)
    raw.session(SessionFacts(2, float(spec.schedule().phases[2]), t_closed=3.0, reason="went away", filled_tokens=160))
    raw.now(until)
    journal.sample([row | {"t": (row["t"] or 0.0) + T0} for row in made.telemetry(until)])


def killed(parent: Path, kind: str = "run", place: str = ".", until: float = 12.0) -> Path:
    """The folder of a command that was killed."""
    record = made.blank(kind)
    record.status, record.wall_seconds = "running", 0.0
    folder = RunFolder.create(parent, "killed")
    folder.write(record)
    spool(folder.path / place, until)
    assert folder._lock is not None
    import os

    # what the system does when a process dies: the file stays, the lock goes
    os.close(folder._lock._descriptor)
    return folder.path


def test_a_killed_run_becomes_an_interrupted_record(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    stored = open_record(folder / "run.json")
    record = read_record(folder)
    assert record == stored.record
    assert (record.status, record.error) == ("interrupted", WORDS)
    assert not stored.complaints
    probe = record.probes[0]
    assert (probe.outcome, probe.sessions, probe.folder) == ("interrupted", SESSIONS, ".")
    assert probe.wall_seconds == 15.0
    assert record.wall_seconds == 15.0
    assert 0 < probe.verdict["misses"]["due"] < probe.verdict["misses"]["planned"]
    assert probe.verdict["latency"]["p50"] == pytest.approx(0.2)
    assert probe.verdict["misses"]["died"] == 1
    assert probe.close_reasons == ["went away"]
    assert probe.cpu_shares["engine"] == pytest.approx(0.8)
    assert record.result is not None
    assert "KV for" in record.result["arithmetic"]


def test_its_facts_are_in_tables_and_nothing_raw_is_left(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    open_record(folder / "run.json")
    assert len(read_facts(folder).frames) > 0
    assert read_telemetry(folder)["t"][0] == 0.0
    assert not {".reserve", ".live", "spool"} & {path.name for path in folder.iterdir()}


def test_salvaged_once_it_is_a_record_like_any_other(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    first = open_record(folder / "run.json").record
    before = (folder / "run.json").stat().st_mtime_ns
    assert open_record(folder / "run.json").record == first
    assert (folder / "run.json").stat().st_mtime_ns == before


def test_a_killed_search_keeps_its_runs_and_says_how_far_it_came(tmp_path: Path) -> None:
    folder = killed(tmp_path, "capacity", "probes/01-n20")
    record = open_record(folder / "run.json").record
    assert [probe.folder for probe in record.probes] == ["probes/01-n20"]
    assert record.result is not None
    assert record.result["mscs"]["stop"] == "interrupted"
    assert record.result["stopped"] == "interrupted"


def test_a_run_killed_before_anything_was_measured_has_no_run(tmp_path: Path) -> None:
    folder = killed(tmp_path, until=0.0)
    stored = open_record(folder / "run.json")
    assert (stored.record.status, stored.record.probes) == ("interrupted", [])
    assert not stored.complaints


def test_a_live_command_is_left_alone(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    lock = take(folder)
    stored = open_record(folder / "run.json")
    assert stored.live
    assert read_record(folder).status == "running"
    assert (folder / "spool").is_dir()
    assert (folder / ".reserve").exists()
    assert lock is not None
    lock.release()


@pytest.mark.parametrize("name", ["state.bin", "sessions.bin", "spec.json", "telemetry.jsonl"])
def test_raw_facts_that_cannot_be_read_are_named_and_kept(tmp_path: Path, name: str) -> None:
    folder = killed(tmp_path)
    (folder / "spool" / name).write_bytes(b"\xff\n" * 5)
    stored = open_record(folder / "run.json")
    assert stored.record.status == "interrupted"
    assert stored.record.probes == []
    assert str(folder / "spool") in stored.complaints[0]
    assert (folder / "spool").is_dir()


def test_a_folder_that_cannot_be_written_is_shown_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = killed(tmp_path)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("metrobench.records.take", refuse)
    stored = open_record(folder / "run.json")
    assert stored.record.probes[0].outcome == "interrupted"
    assert len(stored.facts(stored.record.probes[0]).frames) > 0
    assert len(stored.telemetry(stored.record.probes[0])["t"]) > 0
    assert "Permission denied" in stored.complaints[0]
    assert read_record(folder).status == "running"


def test_a_disk_too_full_for_the_tables_is_made_good_later(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    record = open_record(folder / "run.json").record
    record.status = "complete"
    for name in ("frames.parquet", "telemetry.parquet", "facts.json"):
        (folder / name).unlink()
    RunFolder(folder).write(record)
    spool(folder, 12.0)
    again = open_record(folder / "run.json")
    assert again.record.status == "complete"
    assert len(read_facts(folder).frames) > 0
    assert not (folder / "spool").exists()
