"""CPU time that the hypervisor gave to other guests while this machine wanted it."""

from __future__ import annotations

from metrobench.doctor.check import Check, Status, first_of, not_visible
from metrobench.environment import usable_cores
from metrobench.machine import cpu_spent
from metrobench.measure.verdict import MAX_STEAL
from metrobench.units import percent

NOTICEABLE = 0.01
"""Share of CPU time worth a word."""


class StealWatch:
    """From its making to the check: a machine at rest loses nothing, so other checks should run in between."""

    def __init__(self) -> None:
        self._before = _read()

    def check(self) -> list[Check]:
        """Judged from the making to now."""
        before, after = self._before, _read()
        if before is None or after is None or after[0] <= before[0]:
            return [not_visible("steal", "the system does not count it")]
        return [judge_steal((after[1] - before[1]) / (after[0] - before[0]))]


def judge_steal(share: float) -> Check:
    """`share` of all CPU time of the machine."""
    rules = [
        (
            share > MAX_STEAL,
            Status.FAIL,
            f"a run that loses more than {percent(MAX_STEAL, 0)} is void: measure at a calmer time or elsewhere",
        ),
        (share > NOTICEABLE, Status.WARN, "other guests of this hardware take CPU time: expect void runs"),
    ]
    return first_of("steal", rules, f"{percent(share)} of the CPU time since the first check", share=share)


def _read() -> tuple[float, float] | None:
    """All CPU seconds so far of the cores we may use, and the stolen ones."""
    seen = cpu_spent(usable_cores())
    return None if seen.steal is None else (seen.total, seen.steal)
