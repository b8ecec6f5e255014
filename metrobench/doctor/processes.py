"""Other programs: who takes CPU now, and what earlier commands left running."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping

import psutil
from msgspec import Struct

from metrobench.doctor.check import Check, Status, first_of
from metrobench.environment import usable_cores
from metrobench.machine import cpu_spent
from metrobench.measure.verdict import MAX_OTHERS
from metrobench.probe_record import DOUBTFUL_OTHERS
from metrobench.units import seconds

WINDOW = 1.0
"""Seconds of watching; a busy one is looked at once more, for a moment's work says nothing."""
NAMED = 2
"""Busiest programs to name."""
_OURS = ("metrobench.load.driver", "metrobench.worker.forkserver")
_ENGINE = "EngineCore"


class Busy(Struct, frozen=True):
    """A program and the cores it kept busy."""

    pid: int
    name: str
    cores: float


def check_others(embedded: bool) -> list[Check]:
    """Read and judged. `embedded`: vLLM is installed, so that other programs could be beside an embedded worker."""
    total, top = _watch()
    if total > DOUBTFUL_OTHERS:
        total, top = min((total, top), _watch(), key=lambda seen: seen[0])
    return [judge_others(total, top, embedded)]


def judge_others(total: float, top: list[Busy], embedded: bool) -> Check:
    """`total`: cores that everything but this command kept busy."""
    named = ", ".join(f"{one.name} (pid {one.pid}) {one.cores:.2f}" for one in top)
    words = f"{total:.2f} cores busy" + (f": {named}" if named else "")
    rules = [
        (embedded and total > MAX_OTHERS, Status.FAIL, f"a run of an embedded worker is void above {MAX_OTHERS:g}"),
        (total > DOUBTFUL_OTHERS, Status.WARN, "end them before measuring: the capacity may come out too small"),
    ]
    return first_of("other programs", rules, words, cores=total, top=[(one.pid, one.name, one.cores) for one in top])


def _watch() -> tuple[float, list[Busy]]:
    """Cores, of those we may use, that others kept busy for WINDOW seconds, and the busiest programs."""
    before, begin = _cpu_of_processes(), time.monotonic()
    cores = usable_cores()
    machine, own = cpu_spent(cores).busy, time.process_time()
    time.sleep(WINDOW)
    took = time.monotonic() - begin
    total = (cpu_spent(cores).busy - machine - (time.process_time() - own)) / took
    after = _cpu_of_processes()
    grown = [
        Busy(pid, name, round((cpu - before[pid][1]) / took, 3))
        for pid, (name, cpu) in after.items()
        if pid in before and cpu > before[pid][1] and pid != os.getpid()
    ]
    return max(0.0, total), sorted(grown, key=lambda one: -one.cores)[:NAMED]


def _cpu_of_processes() -> dict[int, tuple[str, float]]:
    """pid -> (name, CPU seconds so far) of every process that can be seen."""
    found = {}
    for process in psutil.process_iter(("name", "cpu_times")):
        times = process.info["cpu_times"]
        if times is not None:
            found[process.pid] = (process.info["name"] or "?", times.user + times.system)
    return found


class Seen(Struct, frozen=True):
    """A process as the system lists it."""

    pid: int
    parent: int
    name: str
    command: str
    age: float
    """Seconds since its start."""


def check_leftovers() -> list[Check]:
    """Read and judged."""
    table = {}
    for process in psutil.process_iter(("pid", "ppid", "name", "cmdline", "create_time")):
        with contextlib.suppress(psutil.Error):
            info = process.info
            age = max(0.0, time.time() - (info["create_time"] or time.time()))
            words = " ".join(info["cmdline"] or ())
            table[process.pid] = Seen(process.pid, info["ppid"] or 0, info["name"] or "?", words, age)
    return [judge_leftovers(table)]


def judge_leftovers(table: Mapping[int, Seen]) -> Check:
    """`table`: every visible process by its number."""
    engines = {pid for pid, seen in table.items() if _is_engine(seen)}
    alive = {pid: _owner(pid, table, engines) for pid in sorted(engines)}
    orphans = [table[pid] for pid, owner in alive.items() if owner is None]
    owners = {owner.pid: owner for owner in alive.values() if owner is not None}
    measuring = [owner for pid, owner in alive.items() if owner and _is_ours(table[pid])]
    if orphans:
        listed = ", ".join(f"{seen.name} (pid {seen.pid}, {seconds(round(seen.age))} old)" for seen in orphans)
        advice = f"kill {' '.join(str(seen.pid) for seen in orphans)}"
        return Check("leftovers", Status.WARN, f"their command is gone and they still run: {listed}", advice)
    if measuring:
        words = f"another metrobench command is running (pid {measuring[0].pid})"
        return Check("leftovers", Status.WARN, words, "two measurements at a time spoil each other: wait for its end")
    if owners:
        listed = ", ".join(f"{owner.name} (pid {owner.pid})" for owner in owners.values())
        return Check("leftovers", Status.OK, f"none; a vLLM server runs: {listed}")
    return Check("leftovers", Status.OK, "no worker or engine of an earlier command")


def _is_engine(seen: Seen) -> bool:
    first = seen.command.split(" ", 1)[0]
    return _ENGINE in seen.name or _ENGINE in first or _is_ours(seen)


def _is_ours(seen: Seen) -> bool:
    return any(f"-m {module}" in seen.command for module in _OURS)


def _owner(pid: int, table: Mapping[int, Seen], engines: set[int]) -> Seen | None:
    """The nearest process above that is no worker itself; None: the system has taken the orphan over."""
    for _ in range(len(table)):
        parent = table[pid].parent
        if parent <= 1 or parent not in table:
            return None
        if parent not in engines:
            return table[parent]
        pid = parent
    return None
