"""`kv`: as many sessions as the KV pool holds for ever, N * most blocks of one <= pool."""

from __future__ import annotations

from metrobench.admission.base import Code, Decision, Observation, Signals, at_most


class KvBudget:
    """Admits while every session, grown to its most, still fits into the pool."""

    def __init__(self, cap: int | None) -> None:
        """`cap`: sessions that fit; None: the policy bounds nothing, so that no number fits for ever, and all are
        admitted."""
        self.cap = cap
        self._rho: float | None = None

    def observe(self, seen: Observation) -> None:
        """The share of the pool in use, for the explanation only."""
        self._rho = seen.rho

    def ask(self, t: float, sessions: int) -> Decision:
        """Below the cap?"""
        signals = Signals(sessions, self.cap, rho=self._rho)
        if self.cap is None:
            return Decision(True, signals)
        return at_most(self.cap, sessions, Code.KV, f"the KV pool holds {self.cap} sessions for ever", signals)
