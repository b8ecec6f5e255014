"""The four limits of a deployment whose sessions only grow, and the earliest of them. Pure.

KV pool; positions of one request; memory of the other stages (the encoder cache); memory of the host. Where a limit has
no formula for a model it says so.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

KV, POSITIONS, ENCODER, HOST = "KV pool", "positions", "encoder cache", "host memory"


class Outcome(StrEnum):
    """What is known of a limit."""

    DATE = "date"
    POSSIBLE = "possible"
    NEVER = "never"
    UNKNOWN = "not known"


class Limit(Struct, frozen=True):
    """One limit. Seconds from now, or from the start of a run."""

    name: str
    outcome: Outcome
    why: str
    time: float | None = None
    """When it is met; POSSIBLE: from when on it can be."""
    lower: float | None = None
    upper: float | None = None
    """Ends of the 95 % interval of `time`."""


class Chance(Struct, frozen=True):
    """Probability that the pool is full before a duration."""

    duration: float
    value: float


class Prediction(Struct, frozen=True):
    """What the arithmetic says of a deployment."""

    limits: list[Limit]
    sessions: int
    chance: Chance | None
    assumptions: list[str]
    helps: list[str]
    """What would move or remove the earliest limit, each a sentence."""

    @property
    def first(self) -> Limit | None:
        """The earliest limit that has a time; None: no limit that is known is ever met."""
        return earliest(self.limits)


def earliest(limits: list[Limit]) -> Limit | None:
    """The limit that is met first."""
    return min((limit for limit in limits if limit.time is not None), key=lambda limit: limit.time or 0.0, default=None)
