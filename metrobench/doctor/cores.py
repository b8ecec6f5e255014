"""Which cores there are, who gets which, and whether a quota takes them away again."""

from __future__ import annotations

import os

from metrobench.doctor.cgroup import cpu_period, cpu_quota
from metrobench.doctor.check import Check, Status, first_of
from metrobench.environment import gpu_names, usable_cores
from metrobench.units import seconds
from metrobench.worker.cores import Layout, layout


def check_cores() -> list[Check]:
    """Read and judged."""
    usable = usable_cores()
    gpu, present = bool(gpu_names()), os.cpu_count() or len(usable)
    return [judge_cores(usable, present, cpu_quota(), cpu_period(), gpu=gpu)]


def judge_cores(usable: list[int], present: int, quota: float | None, period: float, *, gpu: bool = False) -> Check:
    """`usable`: core numbers this process may run on; `quota`: cores' worth of CPU time in every `period` seconds;
    `gpu`: the engine runs on one."""
    plan = layout(frozenset(usable), gpu=gpu)
    count = f"{len(usable)} of {present}" if len(usable) < present else f"{present}"
    words = f"{count} usable: {_who(plan)}"
    if quota is not None:
        words += f"; quota of {quota:g} cores' time"
    throttled = quota is not None and quota < len(usable)
    pause = f"a quota stops everything for the rest of each {seconds(period)} once it is used up"
    rules = [
        (quota is not None and quota < 1.0, Status.FAIL, f"{pause}: allow 2 cores or more (docker --cpus)"),
        (throttled, Status.WARN, f"{pause}: lift it, or bind the container to cores (docker --cpuset-cpus)"),
        (not plan.engine_alone, Status.WARN, "client and engine share a core: use a machine with 2 cores or more"),
    ]
    return first_of("cores", rules, words, usable=usable, present=present, quota=quota)


def _who(plan: Layout) -> str:
    if not plan.engine_alone:
        return f"engine, gateway and client share core {_numbers(plan.engine)}"
    if plan.load == plan.front:
        return f"engine on {_numbers(plan.engine)}, gateway and client on {_numbers(plan.load)}"
    return f"engine on {_numbers(plan.engine)}, gateway on {_numbers(plan.front)}, client on {_numbers(plan.load)}"


def _numbers(cores: frozenset[int]) -> str:
    """`1`, `1 and 2`, `1-14`."""
    ordered = sorted(cores)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    return " and ".join([", ".join(map(str, ordered[:-1])), str(ordered[-1])]) if len(ordered) > 1 else str(ordered[0])
