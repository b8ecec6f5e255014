"""`none`: everybody is admitted."""

from __future__ import annotations

from metrobench.admission.base import Decision, Observation, Signals


class Unlimited:
    """Refuses nobody."""

    cap: int | None = None

    def observe(self, seen: Observation) -> None:
        """Nothing to learn."""

    def ask(self, t: float, sessions: int) -> Decision:
        """Yes."""
        return Decision(True, Signals(sessions))
