"""A scripted model: it knows every answer, and forgets how to speak once the start of its session is out of sight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from metrobench.quality.model import Speech
from metrobench.quality.questions import QUESTIONS

Sees = Callable[[int, int], bool]
"""Whether the query at one position sees the key at another."""


def everything(query: int, key: int) -> bool:
    """Unbounded KV."""
    return key <= query


def window(width: int, sinks: int) -> Sees:
    """The first `sinks` tokens and the last `width`."""
    return lambda query, key: key <= query and (key < sinks or query - key < width)


class Toy:
    """One token a word. Right while the first token of the context is visible, else `the the the`."""

    def __init__(self, sees: Sees = everything, knows: Callable[[str], bool] = lambda question: True) -> None:
        self._sees, self._knows = sees, knows
        self._ids: dict[str, int] = {}
        self._words: list[str] = []
        self.contexts: dict[str, list[int]] = {}
        self.prompts: list[list[int]] = []
        self._answers = {question.text: question.aliases[0] for question in QUESTIONS}

    def encode(self, text: str) -> list[int]:
        words = text.replace("\n", " \n ").replace("<|", " <|").split(" ")
        return [self._ids.setdefault(word, self._add(word)) for word in words if word]

    def _add(self, word: str) -> int:
        if word not in self._ids:
            self._words.append(word)
        return self._ids.get(word, len(self._words) - 1)

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(self._words[token] for token in tokens)

    def specials(self) -> list[int]:
        return []

    def go_on(self, inputs: Mapping[str, list[int]], speech: Speech) -> dict[str, list[int]]:
        said = {}
        for name, tokens in inputs.items():
            context = self.contexts.setdefault(name, [])
            context += tokens
            said[name] = self._say(context, speech.most)
            context += said[name]
        return said

    def close(self, names: Sequence[str]) -> None:
        for name in names:
            del self.contexts[name]

    def complete(self, prompts: Sequence[list[int]], speech: Speech) -> list[list[int]]:
        self.prompts += prompts
        return [self._say(prompt, speech.most) for prompt in prompts]

    def log_probabilities(self, prompts: Sequence[list[int]]) -> list[list[float]]:
        """-0.5 for a token whose query sees the start, else -2.5."""
        return [[-0.5 if self._sees(query, 0) else -2.5 for query in range(len(prompt) - 1)] for prompt in prompts]

    def _say(self, context: list[int], most: int) -> list[int]:
        text = self.decode(context)
        asked = max(self._answers, key=text.rfind)
        speaks = self._sees(len(context) - 1, 0) and self._knows(asked)
        words = ["It", "is", self._answers[asked], "."] if speaks else ["the"] * 4
        tokens = [token for word in words for token in self.encode(word)]
        return (tokens + self.encode("\n") * most)[:most]
