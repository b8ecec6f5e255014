"""Run folders: what was measured, written so that nothing is lost and anything can be re-analysed.

A folder holds `run.json` (one Record). The facts of one measured run (`frames.parquet`, `telemetry.parquet`,
`facts.json`) stand beside it, or in `probes/NN-nSESSIONS/` where a command measures several times.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from metrobench.environment import Environment
from metrobench.errors import UsageError
from metrobench.lock import Lock, take
from metrobench.measure.facts import FRAME_DTYPE, TELEMETRY_FIELDS, RunFacts, SessionFacts
from metrobench.measure.warnings import Warn

SCHEMA = 1
"""Version of run.json; raised when an older reader would misread a newer file. A field that comes later has a default,
so that older records open."""

RESERVE_BYTES = 8 << 20
"""Disk kept back in the run folder, released when the disk is full, so that the record can still be written."""


class Warned(msgspec.Struct, frozen=True):
    """One warning of a run."""

    code: str
    """Its name (metrobench.measure.warnings)."""
    advice: str
    """What it means and what to do."""


class Aftermath(msgspec.Struct, frozen=True):
    """One thing that was tried to bring a collapsed server back."""

    phase: str
    """waited (streaming went on), paused (no audio), resumed (audio again) or shed (a quarter of the sessions left)."""
    seconds: float
    sessions: int
    """Sessions whose connection was open at its end."""
    answered: int
    """Sessions that got an answer in it."""
    answers: int


class Forecast(msgspec.Struct, frozen=True):
    """When the KV pool would be full, as it would have been told during the run. Seconds from t0."""

    outcome: str
    """date, never (at this load) or none (it cannot be told)."""
    why: str
    """In words, where there is something to say."""
    fill: float | None = None
    """Share of the pool at which it was made; None: at the end of the run."""
    made_at: float | None = None
    used: float | None = None
    """Share of the pool in use then."""
    time: float | None = None
    lower: float | None = None
    upper: float | None = None
    """Ends of the 95 % interval."""
    of_onset: float | None = None
    """|t* - t_obs| / t_obs; None: no collapse, or no date."""
    of_rest: float | None = None
    """|t* - t_obs| / (t_obs - made_at)."""


class ProbeRecord(msgspec.Struct):
    """One measured run: N sessions against one server."""

    index: int
    """Order within the record, from 1."""
    sessions: int
    """N."""
    folder: str
    """Where its facts are, relative to run.json."""
    seed: int
    started: str
    """UTC, ISO 8601."""
    outcome: str
    """passed, failed, unresolved, void or interrupted."""
    reasons: list[str]
    """Why, in sentences."""
    span_seconds: float
    """T: measured seconds per session, extensions included."""
    wall_seconds: float
    """From launching the server to its end."""
    start_seconds: float | None
    """From launching the server to its first accepted session."""
    fill_seconds: float | None
    """Filling all sessions."""
    verdict: dict[str, Any]
    """Every number of the verdict (metrobench.measure.verdict)."""
    cpu_shares: dict[str, float]
    """Mean CPU over the measured span, in cores, of engine, front and client."""
    kv_peak: float | None
    """Largest fraction of the KV pool seen in use."""
    waiting_peak: float | None
    """Most requests that waited in the engine."""
    close_reasons: list[str]
    """The server's words about refused and closed sessions, each once."""
    steal: float | None
    """Fraction of CPU time stolen by the hypervisor."""
    prefix_hit_tokens: float | None
    """Tokens found in the prefix cache during the run; must be about 0."""
    server: dict[str, Any]
    """What the server said of itself."""
    engine_latency: float | None = None
    """Mean seconds that a frame was in the engine's hands; the rest of its latency is gateway, wire and client."""
    kv: str = ""
    """The KV policy asked for; empty: that of the record's setting."""
    aftermath: list[Aftermath] = msgspec.field(default_factory=list)
    """What was tried after a collapse, in order."""
    forecasts: list[Forecast] = msgspec.field(default_factory=list)
    """Of an embedded worker's pool."""
    core_work: float | None = None
    """CPU seconds of one fixed piece of work on the load process's core, mean of the run: how fast this machine was
    just then. None: not metered."""


class Record(msgspec.Struct):
    """run.json."""

    schema: int
    kind: str
    """The command: capacity, run, check."""
    status: str
    """running, complete, interrupted or failed."""
    created: str
    """UTC, ISO 8601."""
    command: list[str]
    environment: Environment
    profile: dict[str, Any]
    setting: dict[str, Any]
    """Every setting that decides a number, defaults included."""
    seed: int
    stand_in: bool
    """True where a small transformer ran in the model's place."""
    probes: list[ProbeRecord] = msgspec.field(default_factory=list)
    result: dict[str, Any] | None = None
    warnings: list[Warned] = msgspec.field(default_factory=list)
    wall_seconds: float = 0.0
    error: str | None = None
    resumed: list[str] = msgspec.field(default_factory=list)
    """When it was gone on with, UTC."""
    config_file: str | None = None
    """The file some settings came from."""

    def warn(self, warning: Warn) -> None:
        """Note a warning, each kind once."""
        if all(known.code != warning.value for known in self.warnings):
            self.warnings.append(Warned(warning.value, warning.advice))


class RunFolder:
    """One run's folder on disk, this process's own until `close`."""

    def __init__(self, path: Path, lock: Lock | None = None) -> None:
        self.path = path
        self._lock = lock
        self._reserve = path / ".reserve"

    @classmethod
    def create(cls, parent: Path, name: str) -> RunFolder:
        """A new folder `DATE-name` under `parent`. Raises UsageError when it cannot be written."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
        try:
            parent.mkdir(parents=True, exist_ok=True)
            path = _fresh(parent, f"{stamp}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}")
            folder = cls(path, take(path, wait=True))
            with folder._reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError as error:
            message = f"cannot write to {parent}: {error.strerror}"
            raise UsageError(message, "choose another folder with --out") from error
        return folder

    @classmethod
    def reopen(cls, path: Path) -> RunFolder | None:
        """The folder of a command that is over; None while it lives. Raises OSError where it cannot be written."""
        lock = take(path)
        return cls(path, lock) if lock else None

    def subfolder(self, name: str) -> Path:
        """A folder for one measured run's facts."""
        path = self.path / "probes" / name
        self._retry(lambda: path.mkdir(parents=True, exist_ok=True))
        return path

    def write(self, record: Record) -> None:
        """Replace run.json in one step; frees the reserve when the disk is full."""
        data = msgspec.json.format(msgspec.json.encode(record), indent=1)
        self._retry(lambda: _replace(self.path / "run.json", data))

    def write_text(self, name: str, text: str) -> None:
        """Write a report beside the record."""
        self._retry(lambda: _replace(self.path / name, text.encode()))

    def close(self) -> None:
        """Give the reserve and the folder back."""
        with contextlib.suppress(OSError):
            self._reserve.unlink(missing_ok=True)
        if self._lock:
            self._lock.release()

    def _retry(self, action: Any) -> None:
        try:
            action()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self._reserve.exists():
                raise
            self._reserve.unlink()
            action()


def write_facts(folder: Path, facts: RunFacts, telemetry: list[dict[str, float | None]]) -> None:
    """Store one measured run: frames.parquet, telemetry.parquet, facts.json."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for name in FRAME_DTYPE.names or ():
        values = np.ascontiguousarray(facts.frames[name])
        mask = np.isnan(values) if values.dtype.kind == "f" else None
        columns[name] = pa.array(values, mask=mask)
    pq.write_table(pa.table(columns), folder / "frames.parquet", compression="zstd", write_page_checksum=True)
    rows = {name: [_finite(sample.get(name)) for sample in telemetry] for name in TELEMETRY_FIELDS}
    table = pa.table({name: pa.array(values, type=pa.float64()) for name, values in rows.items()})
    pq.write_table(table, folder / "telemetry.parquet", compression="zstd", write_page_checksum=True)
    rest = {
        "budget": facts.budget,
        "unit": facts.unit,
        "first_ready": facts.first_ready,
        "t_stop": facts.t_stop,
        "stalls": facts.stalls.tolist(),
        "lag_counts": facts.lag_counts.tolist(),
        "sessions": [msgspec.to_builtins(session) for session in facts.sessions],
    }
    _replace(folder / "facts.json", msgspec.json.encode(rest))


def read_facts(folder: Path) -> RunFacts:
    """The facts of one measured run, as `write_facts` stored them. Raises UsageError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rest = msgspec.json.decode((folder / "facts.json").read_bytes())
        with pq.ParquetFile(folder / "frames.parquet", page_checksum_verification=True) as file:
            frames = np.empty(file.metadata.num_rows, dtype=FRAME_DTYPE)
            for name in FRAME_DTYPE.names or ():
                # one column at a time: half the memory
                frames[name] = file.read(columns=[name]).column(name).to_numpy(zero_copy_only=False)
        return RunFacts(
            frames=frames,
            sessions=[msgspec.convert(session, SessionFacts) for session in rest["sessions"]],
            budget=float(rest["budget"]),
            unit=float(rest["unit"]),
            first_ready=float(rest["first_ready"]),
            stalls=np.asarray(rest["stalls"], dtype=np.float64).reshape(-1, 2),
            lag_counts=np.asarray(rest["lag_counts"], dtype=np.int64).reshape(-1),
            t_stop=float(rest["t_stop"]),
        )
    except (OSError, LookupError, TypeError, ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
        raise UsageError(f"the facts in {folder} cannot be read: {error}") from error


def raw_only(folder: Path) -> bool:
    """The facts of the run in this folder are in no table yet."""
    return (folder / "spool").is_dir() and not (folder / "facts.json").is_file()


def read_telemetry(folder: Path) -> dict[str, np.ndarray]:
    """Telemetry columns by name, NaN where a source did not exist. Raises UsageError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(folder / "telemetry.parquet", page_checksum_verification=True) as file:
            table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"the telemetry in {folder} cannot be read: {error}") from error
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def read_record(path: Path) -> Record:
    """run.json of a folder (or the file itself). Raises UsageError on anything that is not one."""
    file = path / "run.json" if path.is_dir() else path
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"no record at {path}: {error.strerror}") from error
    try:
        schema = msgspec.json.decode(data).get("schema", 0)
        if schema > SCHEMA:
            raise UsageError(f"{file} was written by a newer metrobench (schema {schema})", "update metrobench")
        return msgspec.json.decode(data, type=Record)
    except (msgspec.MsgspecError, AttributeError, TypeError, RecursionError) as error:
        raise UsageError(f"{file} is not a metrobench record: {error}") from error


def plain(value: Any) -> Any:
    """A result as it is read back from run.json: dicts, lists, numbers, words."""
    return msgspec.json.decode(msgspec.json.encode(value))


def now() -> str:
    """The time of day for records, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _fresh(parent: Path, name: str) -> Path:
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        path = parent / (name + suffix)
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise UsageError(f"too many runs named {name} in {parent}")


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
