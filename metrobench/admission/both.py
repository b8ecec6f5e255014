"""`aimd+kv`: two controllers, and a session must please both."""

from __future__ import annotations

from metrobench.admission.base import Controller, Decision, Observation


class Both:
    """The tighter of two; a refusal is explained by the one that made it."""

    def __init__(self, first: Controller, second: Controller) -> None:
        self._parts = (first, second)

    @property
    def cap(self) -> int | None:
        """The smaller cap."""
        return min((part.cap for part in self._parts if part.cap is not None), default=None)

    def observe(self, seen: Observation) -> None:
        """Both learn."""
        for part in self._parts:
            part.observe(seen)

    def ask(self, t: float, sessions: int) -> Decision:
        """The first refusal, else the first one's yes."""
        answers = [part.ask(t, sessions) for part in self._parts]
        return next((answer for answer in answers if not answer.admitted), answers[0])
