"""A command that was killed leaves its raw facts: they become a record like any other.

Nothing is measured again. Whatever the disk holds is turned into tables and judged; the record says `interrupted` and
that it was salvaged.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from metrobench.journal import Begun, read_begun, read_samples
from metrobench.load import spool
from metrobench.measure.facts import RunFacts
from metrobench.measure.telemetry import Row, since
from metrobench.measure.verdict import Verdict
from metrobench.probe import discard_raw
from metrobench.probe_record import doubts, judge_run, make_record
from metrobench.records import ProbeRecord, Record, RunFolder, write_facts
from metrobench.report.search_result import Runs, interrupted_search, search_result, stored_arithmetic

WORDS = "the command was killed; what it had recorded by then was salvaged"


def salvage(folder: RunFolder, record: Record) -> Record:
    """The record with the run that was going on in it, stored. Raises UsageError (raw facts that cannot be read) and
    OSError (a folder that cannot be written)."""
    for raw in (folder.path / "spool", *sorted(folder.path.glob("probes/*/spool"))):
        if raw.is_dir() and not _known(folder, record, raw.parent):
            found = _recover(raw)
            if found is not None:
                found.folder = raw.parent.relative_to(folder.path).as_posix()
                record.probes.append(found)
                for warning in doubts(found):
                    record.warn(warning)
    _close(record)
    folder.write(record)
    for probe in record.probes:
        discard_raw(folder.path / probe.folder)
    return record


def _known(folder: RunFolder, record: Record, place: Path) -> bool:
    return any(folder.path / probe.folder == place for probe in record.probes)


def _recover(raw: Path) -> ProbeRecord | None:
    """One killed run: its tables written, judged. None where no frame had fallen due."""
    begun, facts = read_begun(raw), spool.read_facts(raw)
    if begun is None or not len(facts.frames):
        return None
    t0 = spool.read_start(raw)
    rows = since(read_samples(raw), t0)
    write_facts(raw.parent, facts, rows)
    return _record(begun, facts, rows, t0)


def _record(begun: Begun, facts: RunFacts, rows: list[Row], t0: float) -> ProbeRecord:
    record = make_record(begun, "", facts, rows, judge_run(begun, facts, rows))
    record.outcome = "interrupted"
    record.wall_seconds = round(t0 + facts.t_stop - begun.moment, 3)
    return record


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
