"""CPU time of the cores that a measurement may use: what other cores of a large machine do does not concern it."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

import psutil


class Spent(NamedTuple):
    """CPU seconds since the machine started."""

    busy: float
    """By any program."""
    total: float
    """All of them, idle ones included."""
    steal: float | None
    """Taken by the hypervisor; None: not visible."""


def cpu_spent(cores: Collection[int] = ()) -> Spent:
    """Of `cores`; of the whole machine where none is named, or where cores switched off hide which is which."""
    each = psutil.cpu_times(percpu=True)
    # only online cores are listed, in order: with some switched off a place in the list is no core's number
    numbered = len(each) == os.sysconf("SC_NPROCESSORS_CONF")
    chosen = [each[core] for core in cores] if cores and numbered else each
    # a guest's time is in the user's as well (proc(5), /proc/stat)
    total = sum(sum(times) - _of(times, "guest") - _of(times, "guest_nice") for times in chosen)
    steal = sum(_of(times, "steal") for times in chosen)
    idle = sum(times.idle + _of(times, "iowait") for times in chosen)
    return Spent(total - idle - steal, total, steal if hasattr(each[0], "steal") else None)


def _of(times: object, name: str) -> float:
    return float(getattr(times, name, 0.0))
