"""Records on disk, found and opened for a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from metrobench.errors import UsageError
from metrobench.lock import held
from metrobench.measure.facts import LATER_FIELDS, TELEMETRY_FIELDS, RunFacts
from metrobench.measure.limits import LimitedBy
from metrobench.measure.open_system import OpenSystem
from metrobench.measure.plan import Slo, check_plan
from metrobench.measure.telemetry import Row
from metrobench.measure.verdict import Verdict
from metrobench.policy import parse_policy
from metrobench.quality.analysis import Quality
from metrobench.quality.search import Found
from metrobench.records import ProbeRecord, Record, RunFolder, plain, raw_only, read_facts, read_record, read_telemetry
from metrobench.report import quality_table
from metrobench.report.rejudge import plan_of
from metrobench.search.mscs import Mscs

RECORD = "run.json"
REPORTS = Path("reports")
"""Where the newest run is looked for when none is named."""


@dataclass(slots=True)
class Stored:
    """One record and what lies beside it."""

    path: Path
    """The run's folder."""
    record: Record
    live: bool = False
    """A live command is still measuring into it."""
    complaints: list[str] = field(default_factory=list)
    """What could not be read or written, one sentence each."""

    def facts(self, probe: ProbeRecord) -> RunFacts:
        """The facts of one run. Raises UsageError."""
        raw = self._raw(probe)
        return raw[0] if raw else read_facts(self.path / probe.folder)

    def telemetry(self, probe: ProbeRecord) -> dict[str, npt.NDArray[np.float64]]:
        """Its telemetry by TELEMETRY_FIELDS, NaN where a source did not exist. Raises UsageError."""
        raw = self._raw(probe)
        if raw:
            columns: dict[str, Any] = {name: [row.get(name) for row in raw[1]] for name in TELEMETRY_FIELDS}
        else:
            columns = dict(read_telemetry(self.path / probe.folder))
        length = len(next(iter(columns.values()), ()))
        columns = {name: np.full(length, np.nan) for name in LATER_FIELDS} | columns
        if missing := sorted(set(TELEMETRY_FIELDS) - set(columns)):
            raise UsageError(f"the telemetry in {self.path / probe.folder} lacks {', '.join(missing)}")
        return {name: np.asarray(columns[name], dtype=np.float64) for name in TELEMETRY_FIELDS}

    def _raw(self, probe: ProbeRecord) -> tuple[RunFacts, list[Row]] | None:
        """What the load process recorded, where it is in no table yet."""
        place = self.path / probe.folder
        if not raw_only(place):
            return None
        from metrobench.report.salvage import read_raw

        return read_raw(place / "spool")


def find(asked: Path) -> list[Path]:
    """Record files of a run folder, of one file, or of all run folders directly in a folder, newest last.

    Raises UsageError.
    """
    if asked.is_file():
        return [asked]
    if not asked.is_dir():
        raise UsageError(f"{asked} does not exist", "give a run folder, its run.json, or a folder of run folders")
    if (asked / RECORD).is_file():
        return [asked / RECORD]
    # run folders begin with the time of their start
    found = sorted(asked.glob(f"*/{RECORD}"))
    if not found:
        raise UsageError(f"{asked} holds no record ({RECORD})", "give a run folder, or a folder of run folders")
    return found


def newest() -> Path:
    """The newest dated run under reports/. Raises UsageError."""
    found = sorted(REPORTS.glob(f"[0-9]*/{RECORD}"))
    if not found:
        raise UsageError(f"there is no run under {REPORTS}/", "name one: a run folder or a folder of them")
    return found[-1]


def open_record(file: Path) -> Stored:
    """The record in a file. One whose command was killed is salvaged first. Raises UsageError."""
    record = read_record(file)
    _understand(file, record)
    stored = Stored(file.parent, record)
    if file.name == RECORD:
        stored.live = held(file.parent)
        if not stored.live and _unfinished(stored):
            _salvage(stored)
    return stored


def _unfinished(stored: Stored) -> bool:
    """The command was killed, or its disk was too full for the tables. For a folder that no live process owns."""
    record = stored.record
    return record.status == "running" or any(raw_only(stored.path / probe.folder) for probe in record.probes)


def _salvage(stored: Stored) -> None:
    # it brings all of the measuring code along
    from metrobench.report import salvage

    try:
        folder = RunFolder.reopen(stored.path)
    except OSError as error:
        _, stored.complaints = salvage.recover(stored.path, stored.record)
        stored.complaints.append(
            f"{stored.path} cannot be written ({error.strerror}): it stays as the killed run left it"
        )
        return
    if folder is None:
        stored.live = True
        return
    found, stored.complaints = salvage.recover(stored.path, stored.record)
    try:
        salvage.store(folder, stored.record, found)
    except OSError as error:
        stored.complaints.append(
            f"{stored.path} cannot be written ({error.strerror}): it stays as the killed run left it"
        )
    folder.close()


class _Setting(msgspec.Struct):
    """What a report reads of a record's setting."""

    budget: float
    q: float
    slo: Slo | None
    kv: str
    endpoint: str | None
    protocol: str | None = None
    weights: str | None = None
    span: float | None = None
    pool_tokens: int | None = None
    effort: str | None = None
    max_sessions: int | None = None
    clips: list[str] | None = None


class _Timing(msgspec.Struct):
    unit_ms: float


class _Profile(msgspec.Struct):
    """What it reads of the model's profile."""

    name: str
    timing: _Timing


class _Beside(msgspec.Struct):
    """What it reads of the result of a run."""

    arithmetic: str | None = None


class _Found(_Beside, kw_only=True):
    """What it reads of the result of a search."""

    mscs: Mscs
    limited_by: LimitedBy
    stopped: str


class _Offered(msgspec.Struct):
    """What it reads of the setting of an open system."""

    offer: int
    rate: float
    hold: float
    workload: str
    arrivals: str
    full: bool
    admission: str | None
    length: float


class _Ramp(_Beside, kw_only=True):
    """What it reads of its result."""

    ramp: OpenSystem
    caps: list[tuple[float, float]]
    rho: list[tuple[float, float]]
    kv_peak: float | None
    complaints: list[str]


class _Asked(msgspec.Struct):
    """What it reads of the setting of a quality probe."""

    kv: str
    controls: list[str]
    window: int
    sessions: int
    questions: int
    answer: int
    temperature: float
    weights: str | None = None
    endpoint: str | None = None
    protocol: str | None = None
    duration: float = 0.0
    deadline: float = 0.0


class _Named(msgspec.Struct):
    name: str


class _Answered(msgspec.Struct):
    """What it reads of its result."""

    quality: Quality
    windows: list[Found] = []


_RESULTS: dict[str, type[msgspec.Struct]] = {"capacity": _Found, "ramp": _Ramp}


def _understand_quality(record: Record) -> None:
    msgspec.convert(record.setting, _Asked)
    msgspec.convert(record.profile, _Named)
    if record.result is not None:
        msgspec.convert(record.result, _Answered)


def _understand(file: Path, record: Record) -> None:
    """Completes an older record. Raises UsageError where it lacks something that a report reads."""
    try:
        if record.kind == quality_table.KIND:
            _understand_quality(record)
            return
        setting = msgspec.convert(record.setting, _Setting)
        msgspec.convert(record.profile, _Profile)
        if record.kind == "ramp":
            msgspec.convert(record.setting, _Offered)
        for policy in setting.kv.split(","):
            parse_policy(policy)
        for probe in record.probes:
            # an older record lacks numbers that came later: they get their defaults
            probe.verdict = plain(msgspec.convert(probe.verdict, Verdict))
            check_plan(plan_of(record, probe))
        if record.result is not None:
            msgspec.convert(record.result, _RESULTS.get(record.kind, _Beside))
    except (ArithmeticError, UsageError, msgspec.ValidationError) as error:
        raise UsageError(
            f"{file} is a record that this version does not understand: {error}",
            "it was written by another version of metrobench, or changed by hand",
        ) from error
