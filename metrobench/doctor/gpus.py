"""NVIDIA GPUs and who else uses them, as nvidia-smi says."""

from __future__ import annotations

import csv
import shutil
import subprocess

from msgspec import Struct, to_builtins

from metrobench.doctor.check import Check, Status, first_of, not_visible
from metrobench.environment import gpu_names
from metrobench.units import memory

TIMEOUT = 8.0
"""Seconds; the first call after a boot wakes the driver up."""
MEGABYTE = 1 << 20
IDLE_BYTES = 1 << 30
"""A driver keeps some hundred MB of a GPU that nobody uses."""
BUSY = 0.05
"""Share of the time in which the GPU of an idle machine may compute."""
GPU_FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "clocks.sm",
    "clocks.max.sm",
    "persistence_mode",
    "mig.mode.current",
)
PROCESS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")


class GpuProcess(Struct, frozen=True):
    """A program that holds memory of a GPU."""

    pid: int
    name: str
    memory: int | None
    """Bytes; None: not visible."""


class Gpu(Struct, frozen=True):
    """One GPU; None: the driver does not say."""

    index: int
    name: str
    memory: int | None
    """Bytes."""
    used: int | None
    """Bytes in use by anybody."""
    busy: float | None
    """Share of the last second or so in which it computed."""
    clock: float | None
    """Hz of the multiprocessors now."""
    clock_max: float | None
    persistence: bool | None
    """The driver stays loaded while nobody uses the GPU."""
    mig: bool | None
    """Split into instances."""
    processes: tuple[GpuProcess, ...] = ()


def check_gpus() -> list[Check]:
    """Read and judged: one check for each GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        names = gpu_names()
        if names:
            return [not_visible("gpu", f"{', '.join(names)}, but no nvidia-smi")]
        return [Check("gpu", Status.OK, "none: embedded workers are stand-ins on the CPU")]
    try:
        listed = _ask(program, f"--query-gpu={','.join(GPU_FIELDS)}")
        used_by = _ask(program, f"--query-compute-apps={','.join(PROCESS_FIELDS)}")
    except subprocess.TimeoutExpired:
        return [Check("gpu", Status.WARN, f"nvidia-smi did not answer within {TIMEOUT:g} s", "look at dmesg")]
    except subprocess.CalledProcessError as error:
        said = str(error.stdout or error.stderr).strip().splitlines()
        return [Check("gpu", Status.WARN, f"nvidia-smi fails: {said[0] if said else error}", "look at the driver")]
    gpus = parse_gpus(listed, used_by)
    return [judge_gpu(gpu) for gpu in gpus] or [Check("gpu", Status.OK, "nvidia-smi is here and sees no GPU")]


def _ask(program: str, query: str) -> str:
    command = [program, query, "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout


def parse_gpus(listed: str, used_by: str) -> list[Gpu]:
    """From the answers to GPU_FIELDS and PROCESS_FIELDS, as csv with no header and no units."""
    holders: dict[str, list[GpuProcess]] = {}
    for row in csv.reader(used_by.splitlines(), skipinitialspace=True):
        if len(row) == len(PROCESS_FIELDS) and row[1].isdigit():
            holders.setdefault(row[0], []).append(GpuProcess(int(row[1]), row[2], _megabytes(row[3])))
    return [
        Gpu(
            index=int(row[0]),
            name=row[2],
            memory=_megabytes(row[3]),
            used=_megabytes(row[4]),
            busy=_scaled(row[5], 0.01),
            clock=_scaled(row[6], 1e6),
            clock_max=_scaled(row[7], 1e6),
            persistence=_switch(row[8]),
            mig=_switch(row[9]),
            processes=tuple(holders.get(row[1], ())),
        )
        for row in csv.reader(listed.splitlines(), skipinitialspace=True)
        if len(row) == len(GPU_FIELDS)
    ]


def judge_gpu(gpu: Gpu) -> Check:
    """Whether it is free to be measured."""
    parts = [gpu.name if gpu.memory is None else f"{gpu.name}, {memory(gpu.memory)}"]
    parts += [f"used by {process.name} ({_holds(process)})" for process in gpu.processes]
    if not gpu.processes and gpu.used is not None:
        parts.append(f"{memory(gpu.used)} in use")
    if gpu.busy:
        parts.append(f"busy {gpu.busy:.0%}".replace("%", " %"))
    if gpu.clock is not None and gpu.clock_max is not None:
        parts.append(f"clock {gpu.clock / 1e6:.0f} of {gpu.clock_max / 1e6:.0f} MHz")
    if gpu.persistence is not None:
        parts.append(f"persistence {'on' if gpu.persistence else 'off'}")
    if gpu.mig:
        parts.append("MIG on")
    hidden = not gpu.processes and (gpu.used or 0) > IDLE_BYTES
    pids = " ".join(str(process.pid) for process in gpu.processes)
    rules = [
        ((gpu.busy or 0.0) > BUSY, Status.FAIL, "a run beside another program on the GPU is void: wait or end it"),
        (bool(gpu.processes), Status.WARN, f"their memory is not there for KV: end them before measuring ({pids})"),
        (hidden, Status.WARN, "its memory is in use by something not visible from here (another container?)"),
        (bool(gpu.mig), Status.WARN, "an instance is a part of the GPU: the result holds for that part"),
        (gpu.persistence is False, Status.WARN, "first runs start slowly: nvidia-smi -pm 1"),
    ]
    return first_of(f"gpu {gpu.index}", rules, ", ".join(parts), **to_builtins(gpu))


def _holds(process: GpuProcess) -> str:
    held = "" if process.memory is None else f", {memory(process.memory)}"
    return f"pid {process.pid}{held}"


def _scaled(text: str, unit: float) -> float | None:
    """None for `[N/A]` and `[Not Supported]`."""
    try:
        return float(text) * unit
    except ValueError:
        return None


def _megabytes(text: str) -> int | None:
    value = _scaled(text, MEGABYTE)
    return None if value is None else round(value)


def _switch(text: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(text.strip())
