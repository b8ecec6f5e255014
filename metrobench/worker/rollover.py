"""When a bounded session's context is built again, and from what. Pure.

A request ends at max_model_len whatever its window is. Long before that, in silence, or else after the last frame that
is safe, its successor starts from what the policy keeps: the sinks and the last W tokens.
"""

from __future__ import annotations

from collections import deque

from metrobench.policy import RECYCLE, KvPolicy
from metrobench.schedule import GOLDEN

EARLY = 0.1
"""Share of the way from a fresh context to the limit at whose end silence is a good moment."""


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

    def __init__(self, policy: KvPolicy, frame: int, max_model_len: int, number: int) -> None:
        """`frame`: most tokens one frame adds; `number`: the session's."""
        self._frame = frame
        self._kept = policy.full_tokens
        self._last = max_model_len
        spread = 1.0
        if policy.kind == RECYCLE:
            self._last = min(self._last, policy.most_tokens + frame)
            # all sessions start with the same context: spread their first time, as their ages would be
            spread = max(number * GOLDEN % 1.0, 0.05)
        self._possible = policy.bounded and self._kept + frame < self._last
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
