"""`--admission` as it is typed: none, static:N, kv, aimd or aimd+kv."""

from __future__ import annotations

import re
from dataclasses import dataclass

from metrobench.admission.aimd import Aimd
from metrobench.admission.base import Controller
from metrobench.admission.both import Both
from metrobench.admission.door import Door
from metrobench.admission.kv import KvBudget
from metrobench.admission.static import Static
from metrobench.admission.unlimited import Unlimited
from metrobench.errors import UsageError

NONE, STATIC, KV, AIMD, AIMD_KV = "none", "static", "kv", "aimd", "aimd+kv"
MAX_STATIC = 65_536


@dataclass(frozen=True, slots=True)
class Choice:
    """Which controller."""

    kind: str
    cap: int = 0
    """Sessions of `static`."""

    def __str__(self) -> str:
        return f"{STATIC}:{self.cap}" if self.kind == STATIC else self.kind


KV_BOUND = Choice(KV)
"""What a worker does unless it is told otherwise: no session beyond those that its pool holds for ever."""


def parse_admission(text: str) -> Choice:
    """Raises UsageError."""
    if text in (NONE, KV, AIMD, AIMD_KV):
        return Choice(text)
    match = re.fullmatch(r"static:(\d{1,6})", text)
    if match is None:
        raise UsageError(f"--admission {text!r} is unknown", "use none, static:N, kv, aimd or aimd+kv")
    if not 1 <= int(match[1]) <= MAX_STATIC:
        raise UsageError(f"--admission {text}: N must be 1 to {MAX_STATIC}")
    return Choice(STATIC, int(match[1]))


def make_door(choice: Choice, budget: float, kv_sessions: int | None, ceiling: int) -> Door:
    """The door of a worker. `budget`: B in seconds; `kv_sessions`: sessions that its pool holds for ever, None where
    the policy bounds nothing; `ceiling`: the most it may ever hold."""
    kv: Controller = KvBudget(kv_sessions)
    controllers: dict[str, Controller] = {NONE: Unlimited(), KV: kv}
    if choice.kind == STATIC:
        controllers[STATIC] = Static(choice.cap)
    aimd = Aimd(budget, ceiling)
    controllers |= {AIMD: aimd, AIMD_KV: Both(kv, aimd)}
    return Door(controllers[choice.kind], ceiling, paced=choice.kind in (AIMD, AIMD_KV))
