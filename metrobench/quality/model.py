"""What the probe needs of a language model behind an engine; scripted ones stand in for it in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Speech:
    """How tokens are to be sampled."""

    most: int
    """Tokens of an answer, at most."""
    stop: tuple[int, ...] = ()
    """Tokens that end an answer; the answer does not contain them."""
    banned: tuple[int, ...] = ()
    """Tokens that are never sampled."""
    temperature: float = 0.0
    """0: the likeliest token."""
    seed: int = 0
    """Every prompt or session that is asked at once draws its own numbers from it, the same in every arm."""


class Model(Protocol):
    """Long sessions side by side, and single prompts."""

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, without any added ones."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Their text, special tokens left out."""
        ...

    def specials(self) -> list[int]:
        """Tokens that are no text."""
        ...

    def go_on(self, inputs: Mapping[str, list[int]], speech: Speech) -> dict[str, list[int]]:
        """Each named session takes its tokens and answers; all of an answer's tokens stay in the session.

        All sessions are given their tokens at once and all have answered when it returns. A name not heard of yet
        opens a session.
        """
        ...

    def close(self, names: Sequence[str]) -> None:
        """End sessions and free what they hold."""
        ...

    def complete(self, prompts: Sequence[list[int]], speech: Speech) -> list[list[int]]:
        """Answers to single prompts, each in a context of its own."""
        ...

    def log_probabilities(self, prompts: Sequence[list[int]]) -> list[list[float]]:
        """For each prompt the log-probability of each token but the first, given those before; nats."""
        ...
