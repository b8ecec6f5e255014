"""The policy recycle:W over any model: a session's context is closed and its last W tokens are encoded again, from
position 0, before it would grow beyond 2 W. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metrobench.quality.model import Model, Speech


class Recycling:
    """See model.Model. `inner` keeps every context whole."""

    def __init__(self, inner: Model, window: int) -> None:
        """`window`: W, tokens."""
        self._inner = inner
        self._window = window
        self._contexts: dict[str, list[int]] = {}
        self._times: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        """See Model.encode."""
        return self._inner.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """See Model.decode."""
        return self._inner.decode(tokens)

    def specials(self) -> list[int]:
        """See Model.specials."""
        return self._inner.specials()

    def go_on(self, inputs: Mapping[str, list[int]], speech: Speech) -> dict[str, list[int]]:
        """See Model.go_on. A context begins again between two inputs: where the next one and its answer might not fit
        into 2 W."""
        given: dict[str, list[int]] = {}
        full = []
        for name, tokens in inputs.items():
            context = self._contexts.setdefault(name, [])
            kept: list[int] = []
            if len(context) + len(tokens) + speech.most > 2 * self._window and len(context) > self._window:
                full.append(self._own(name))
                kept = self._contexts[name] = context[-self._window :]
                self._times[name] = self._times.get(name, 0) + 1
            given[self._own(name)] = kept + tokens
        if full:
            self._inner.close(full)
        said = self._inner.go_on(given, speech)
        answers = {name: said[self._own(name)] for name in inputs}
        for name, tokens in inputs.items():
            self._contexts[name] = self._contexts[name] + tokens + answers[name]
        return answers

    def close(self, names: Sequence[str]) -> None:
        """See Model.close."""
        self._inner.close([self._own(name) for name in names])
        for name in names:
            del self._contexts[name]
            self._times.pop(name, None)

    def complete(self, prompts: Sequence[list[int]], speech: Speech) -> list[list[int]]:
        """See Model.complete; no prompt is as long as a window."""
        return self._inner.complete(prompts, speech)

    def log_probabilities(self, prompts: Sequence[list[int]]) -> list[list[float]]:
        """See Model.log_probabilities. The context begins again at every W tokens from 2 W on."""
        width = self._window
        pieces, owners = [], []
        for number, prompt in enumerate(prompts):
            for start in range(0, max(1, len(prompt) - width), width):
                pieces.append(prompt[start : start + 2 * width])
                owners.append((number, start))
        found: list[list[float]] = [[] for _ in prompts]
        for (number, start), values in zip(owners, self._inner.log_probabilities(pieces), strict=True):
            # the first W tokens of a later piece were told before; its value i is that of its token i + 1
            found[number] += values[width - 1 :] if start else values
        return found

    def _own(self, name: str) -> str:
        """The inner model's name of a session's present context."""
        return f"{name}/{self._times.get(name, 0)}"
