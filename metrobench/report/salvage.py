"""A command that was killed leaves its raw facts: they become a record like any other.

Nothing is measured again. Whatever the disk holds is turned into tables and judged; the record says `interrupted` and
that it was salvaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from metrobench.errors import UsageError
from metrobench.journal import read_begun, read_samples
from metrobench.load import spool
from metrobench.measure.facts import RunFacts
from metrobench.measure.telemetry import Row, since
from metrobench.measure.verdict import Verdict
from metrobench.open_probe import conclude
from metrobench.probe import discard_raw
from metrobench.probe_record import doubts, judge_run, make_record
from metrobench.records import ProbeRecord, Record, RunFolder, raw_only, write_facts
from metrobench.report import ramp_table
from metrobench.report.search_result import Runs, interrupted_search, search_result, stored_arithmetic

WORDS = "the command was killed; what it had recorded by then was salvaged"


@dataclass(frozen=True, slots=True)
class Recovered:
    """The facts of one run that are not in tables yet."""

    place: Path
    """The run's folder."""
    facts: RunFacts
    rows: list[Row]
    """Telemetry, `t` from t0."""


def recover(path: Path, record: Record) -> tuple[list[Recovered], list[str]]:
    """What the raw facts hold, noted in `record`; and which of them cannot be read, in words. Writes nothing."""
    found, complaints = [], []
    for raw in (path / "spool", *sorted(path.glob("probes/*/spool"))):
        if not raw.is_dir():
            continue
        try:
            known = any(path / probe.folder == raw.parent for probe in record.probes)
            each = _read(raw, path, None if known else record)
        except UsageError as error:
            complaints.append(error.message)
            continue
        if each is not None and raw_only(raw.parent):
            found.append(each)
    if record.status == "running":
        _close(record)
    return found, complaints


def store(folder: RunFolder, record: Record, found: list[Recovered]) -> None:
    """Write tables and record, drop the raw facts that are now in them. Raises OSError."""
    for each in found:
        write_facts(each.place, each.facts, each.rows)
    folder.write(record)
    for each in found:
        discard_raw(each.place)
    for probe in record.probes:
        discard_raw(folder.path / probe.folder)


def read_raw(raw: Path) -> tuple[RunFacts, list[Row]]:
    """Facts and telemetry (`t` from t0) of a spool. Raises UsageError."""
    return spool.read_facts(raw), since(read_samples(raw), spool.read_start(raw))


def _read(raw: Path, path: Path, record: Record | None) -> Recovered | None:
    """One run, noted in `record` where one is given; None where no frame had fallen due."""
    facts, rows = read_raw(raw)
    if not len(facts.frames):
        return None
    if record is not None and record.kind == "ramp":
        record.result = ramp_table.result(conclude(facts, rows, {}, []))
    elif record is not None:
        begun = read_begun(raw)
        if begun is None:
            raise UsageError(f"{raw} does not say what was measured")
        probe = make_record(begun, raw.parent.relative_to(path).as_posix(), facts, rows, judge_run(begun, facts, rows))
        probe.outcome = "interrupted"
        probe.wall_seconds = round(spool.read_start(raw) + facts.t_stop - begun.moment, 3)
        _note(record, probe)
    return Recovered(raw.parent, facts, rows)


def _note(record: Record, probe: ProbeRecord) -> None:
    record.probes.append(probe)
    for warning in doubts(probe):
        record.warn(warning)


def _close(record: Record) -> None:
    """What the command would have noted at its end."""
    record.status, record.error = "interrupted", WORDS
    if record.probes:
        last = record.probes[-1]
        begun, created = datetime.fromisoformat(last.started), datetime.fromisoformat(record.created)
        record.wall_seconds = round((begun - created).total_seconds() + last.wall_seconds, 1)
    if record.kind == "capacity":
        runs: Runs = [(probe, msgspec.convert(probe.verdict, Verdict)) for probe in record.probes]
        record.result = search_result(record, runs, interrupted_search(record, runs), None)
    elif record.kind == "run" and record.probes:
        record.result = {"arithmetic": stored_arithmetic(record, record.setting["budget"])}
