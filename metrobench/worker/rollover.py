"""When a bounded session's context is built again, and from what. Pure.

A request ends at max_model_len whatever its window is. Long before that, in silence, or else after the last frame that
is safe, its successor starts from what the policy keeps: the sinks and the last W tokens.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from metrobench.policy import RECYCLE, KvPolicy

GOLDEN = 0.6180339887498949
"""Fractional part of the golden ratio: its multiples spread evenly over [0, 1)."""
EARLY = 0.1
"""Share of the way from a fresh context to the limit at whose end silence is a good moment."""


class Limits(Protocol):
    """What is needed of sessions.SessionRules."""

    @property
    def listening(self) -> int: ...
    @property
    def speaking(self) -> int: ...
    @property
    def tokens_in(self) -> int: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def policy(self) -> KvPolicy: ...
    @property
    def guard(self) -> bool: ...


class Context:
    """The tokens that a successor starts from."""

    def __init__(self, policy: KvPolicy) -> None:
        self._sinks = policy.sinks
        self._head: list[int] = []
        self._recent: deque[int] = deque(maxlen=policy.window)

    def add(self, tokens: list[int]) -> None:
        """Tokens that entered the context."""
        missing = self._sinks - len(self._head)
        if missing > 0:
            self._head += tokens[:missing]
            tokens = tokens[missing:]
        self._recent.extend(tokens)

    def kept(self) -> list[int]:
        """The first S tokens and the last W of the others."""
        return [*self._head, *self._recent]


class RolloverPlan:
    """Says after which frame one session rolls over."""

    def __init__(self, rules: Limits, number: int) -> None:
        self._frame = rules.tokens_in + max(rules.listening, rules.speaking)
        self._kept = rules.policy.full_tokens
        self._last = rules.max_model_len
        spread = 1.0
        if rules.policy.kind == RECYCLE:
            self._last = min(self._last, rules.policy.most_tokens + self._frame)
            # all sessions start with the same context: spread their first time, as their ages would be
            spread = max(number * GOLDEN % 1.0, 0.05)
        self._possible = rules.policy.bounded and rules.guard and self._kept + self._frame < self._last
        self._limit = self._kept + round(spread * (self._last - self._kept))

    def began_again(self) -> None:
        """The context is new: the full way to the limit lies ahead."""
        self._limit = self._last

    def due(self, total: int, silence: bool) -> bool:
        """Build the context again now, with `total` tokens in it after a frame? `silence`: nobody spoke in it."""
        if not self._possible or total <= self._kept:
            return False
        if total + self._frame > self._limit:
            return True
        return silence and total >= self._limit - EARLY * (self._limit - self._kept)
