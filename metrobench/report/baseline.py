"""Baseline files of the gate: small, to be committed beside the code they guard."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from metrobench.errors import UsageError
from metrobench.gate.samples import BASELINE, Baseline, Sample
from metrobench.records import now
from metrobench.report.observe import observe
from metrobench.report.stored import find, open_record


def is_baseline(file: Path) -> bool:
    """The file is one of `write`'s, of whatever version, and no record."""
    try:
        return b'"baseline":' in file.read_bytes()[:200]
    except OSError:
        return False


def samples_of(path: Path) -> list[Sample]:
    """The records of a baseline file, of a run folder, or of a folder of them. Raises UsageError."""
    if path.is_file() and is_baseline(path):
        return list(read(path))
    return [observe(open_record(file)) for file in find(path)]


def read(file: Path) -> tuple[Sample, ...]:
    """The records of a baseline file. Raises UsageError."""
    try:
        data = file.read_bytes()
        version = msgspec.json.decode(data)["baseline"]
        if isinstance(version, int) and version > BASELINE:
            raise UsageError(f"{file} was written by a newer metrobench (baseline {version})", "update metrobench")
        return msgspec.json.decode(data, type=Baseline).samples
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, LookupError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{file} is not a baseline: {error}", "metrobench gate RUN... --baseline FILE --update"
        ) from error


def write(file: Path, samples: Sequence[Sample]) -> None:
    """Replace the file in one step. Raises UsageError."""
    whole = Baseline(baseline=BASELINE, written=now(), samples=tuple(samples))
    partial = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
        partial.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise UsageError(f"cannot write the baseline {file}: {error.strerror}") from error
