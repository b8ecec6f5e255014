"""What every admission controller is told and answers. Pure: times are handed in, seconds on one clock.

A controller only ever decides about the session that asks now. It queues nobody and ends no admitted session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from metrobench.units import percent, seconds

RETRY_LOW, RETRY_HIGH, RETRY_UNKNOWN = 1.0, 60.0, 10.0
"""Bounds of a retry hint in seconds, and the hint while nobody has left yet."""


class Code:
    """Why a session was refused, as its client reads it."""

    SESSIONS = "session_limit"
    KV = "kv_limit"
    OVERLOADED = "overloaded"
    KV_PRESSURE = "kv_pressure"
    PACE = "join_pace"


@dataclass(frozen=True, slots=True)
class Observation:
    """One control period."""

    t: float
    sessions: int
    """Admitted and open at its end."""
    latencies: Sequence[float]
    """Of the frames answered in it, and how long each overdue one has waited so far; seconds, any order."""
    rho: float | None = None
    """Share of the KV pool in use; None: not known."""
    void: bool = False
    """The gateway itself was held up: the latencies prove nothing about the engine."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What a controller knew when it decided. None: not known (yet), or not looked at."""

    sessions: int
    cap: int | None = None
    p50: float | None = None
    """Filtered median latency, seconds."""
    p95: float | None = None
    rho: float | None = None
    rho_slope: float | None = None
    """Change of rho in a second."""

    def words(self) -> str:
        """`p50 341 ms, p95 612 ms, kv 41.0 % rising 0.12 %/s`; empty where nothing was looked at."""
        known = (("p50", self.p50), ("p95", self.p95))
        parts = [f"{name} {seconds(value)}" for name, value in known if value is not None]
        if self.rho is not None:
            slope = "" if self.rho_slope is None else f" changing {self.rho_slope * 100:+.2f} %/s"
            parts.append(f"kv {percent(self.rho)}{slope}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one session that wants to join."""

    admitted: bool
    signals: Signals
    code: str = ""
    """One of Code; empty where it was admitted."""
    why: str = ""
    retry_after: float = 0.0
    """Seconds after which another try may succeed."""


class Controller(Protocol):
    """One way to decide."""

    @property
    def cap(self) -> int | None:
        """Most sessions it would admit now; None: no limit."""
        ...

    def observe(self, seen: Observation) -> None:
        """A control period is over."""
        ...

    def ask(self, t: float, sessions: int) -> Decision:
        """May one more join at `t`, beside `sessions` that are open? A retry hint of 0 is the caller's to fill in."""
        ...


def at_most(cap: int, sessions: int, code: str, why: str, signals: Signals) -> Decision:
    """Admitted below the cap; else refused for `why`."""
    return Decision(True, signals) if sessions < cap else Decision(False, signals, code, why)
