"""`static:N`: a fixed number of sessions."""

from __future__ import annotations

from metrobench.admission.base import Code, Decision, Observation, Signals, at_most


class Static:
    """Admits up to `cap` sessions, whatever is measured."""

    def __init__(self, cap: int) -> None:
        self.cap: int | None = cap
        self._cap = cap

    def observe(self, seen: Observation) -> None:
        """Nothing to learn."""

    def ask(self, t: float, sessions: int) -> Decision:
        """Below the cap?"""
        why = f"all {self._cap} sessions of the fixed limit are taken"
        return at_most(self._cap, sessions, Code.SESSIONS, why, Signals(sessions, self._cap))
