"""The order of the trials of a batch: policies interleaved, so that a machine that changes changes for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Planned(Struct, frozen=True):
    """One trial to come."""

    number: int
    """From 1, over all policies."""
    policy: str
    repeat: int
    """Which trial of its policy, from 1."""


def plan_trials(policies: Sequence[str], trials: int) -> list[Planned]:
    """All trials of a batch in order; every other round runs the policies backwards."""
    planned: list[Planned] = []
    for repeat in range(1, trials + 1):
        for policy in policies if repeat % 2 else reversed(policies):
            planned.append(Planned(len(planned) + 1, policy, repeat))
    return planned
