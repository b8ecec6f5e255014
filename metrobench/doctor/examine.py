"""All checks in their order, each with a time limit: none may hang, whatever a driver or a file system does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

import psutil

from metrobench.doctor.check import Check, Status, not_visible
from metrobench.doctor.cores import check_cores
from metrobench.doctor.disk import check_disk
from metrobench.doctor.gpus import check_gpus
from metrobench.doctor.limits import check_limits
from metrobench.doctor.memory import check_memory
from metrobench.doctor.packages import ENGINES, check_packages, installed
from metrobench.doctor.processes import check_leftovers, check_others
from metrobench.doctor.speeds import check_speeds
from metrobench.doctor.steal import StealWatch
from metrobench.doctor.timing import check_timing
from metrobench.environment import gpu_names
from metrobench.profiles import Timing
from metrobench.worker.cores import Layout, layout

UNREADABLE = (OSError, ValueError, LookupError, ImportError, psutil.Error)
"""A file that is missing, forbidden or strange: not visible here."""
SHORT = 10.0
"""Seconds that a check may take."""
LONG = 100.0
"""The same for the pacing test."""
CLEAN_UP = 5.0
"""Seconds for a check to end in good order after it was told to stop."""

Show = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """One check, or a few that are read together. Usable once."""

    name: str
    run: Callable[[], list[Check]]
    limit: float = SHORT
    stop: Event = field(default_factory=Event)
    """Set when the time is over: `run` ends soon after it, where it can."""


def tasks(out: Path, timing: Timing, most: int, show: Show, *, quick: bool) -> list[Task]:
    """The checks in order; the steal watch starts now.

    `timing`: of the model to be measured; `most`: sessions to be trusted with; `quick`: no pacing test.
    """
    embedded = bool(installed(list(ENGINES)))
    plan = layout(gpu=bool(gpu_names()))
    steal, stop_speeds, stop_pacing = StealWatch(), Event(), Event()
    pacing = Task("pacing", partial(_pacing, plan, timing, most, stop_pacing, show), LONG, stop_pacing)
    return [
        Task("packages", check_packages),
        Task("cores", check_cores),
        Task("memory", partial(check_memory, embedded)),
        Task("limits", partial(check_limits, most)),
        Task("disk", partial(check_disk, out)),
        Task("gpu", check_gpus, 2 * SHORT),
        Task("leftovers", check_leftovers),
        Task("other programs", partial(check_others, embedded)),
        Task("clock", partial(check_timing, min(plan.load))),
        Task("core speed", partial(check_speeds, plan, stop_speeds), SHORT, stop_speeds),
        *([] if quick else [pacing]),
        Task("steal", steal.check),
    ]


def _pacing(plan: Layout, timing: Timing, most: int, stop: Event, show: Show) -> list[Check]:
    from metrobench.doctor.pacing import check_pacing

    return check_pacing(plan, timing, most, stop, show)


def perform(task: Task, show: Show) -> list[Check]:
    """What the task finds; one skipped check where it cannot see, or does not end in its time."""
    show(task.name)
    found: list[Check] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.extend(task.run())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name=f"check-{task.name}", daemon=True)
    thread.start()
    try:
        thread.join(task.limit)
    finally:
        task.stop.set()
        thread.join(CLEAN_UP)
    if errors and not isinstance(errors[0], UNREADABLE):
        raise errors[0]
    if errors:
        return [not_visible(task.name, str(errors[0]) or type(errors[0]).__name__)]
    if not found:
        return [Check(task.name, Status.SKIPPED, f"no answer within {task.limit:g} s")]
    return list(found)
