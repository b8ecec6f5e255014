"""Fewer answers of the engine to handle: the first tokens of an input at once, the others together with its last one.

vLLM makes an object, a queue entry and a wake-up of every token of every session, and the gateway tells its clients
nothing between a frame's first token and its end.
"""

from __future__ import annotations

from typing import Any


class Gather:
    """Stands before vLLM's OutputProcessor.process_outputs."""

    def __init__(self, processor: Any) -> None:
        """Puts itself in the way of `processor`."""
        self._process = processor.process_outputs
        self._requests = processor.request_states
        self._held: dict[str, list[int]] = {}
        """Tokens held back, by request that has had its first ones."""
        self.ended: dict[str, float] = {}
        """When the engine had sampled the last token of each request's last input, CLOCK_MONOTONIC. Who asks for a
        request removes it."""
        processor.process_outputs = self

    def __call__(self, outputs: list[Any], sampled: float | None = None, *args: Any, **kwargs: Any) -> Any:
        """See vLLM's process_outputs; `sampled`: the engine process's time of these outputs."""
        ready = [output for output in outputs if self._is_due(output)]
        if sampled is not None:
            self._note_ends(ready, sampled)
        if len(self._held) > len(self._requests):
            self._held = {name: held for name, held in self._held.items() if name in self._requests}
        return self._process(ready, sampled, *args, **kwargs)

    def _note_ends(self, outputs: list[Any], sampled: float) -> None:
        for output in outputs:
            if output.finish_reason is not None and (state := self._requests.get(output.request_id)) is not None:
                self.ended[state.external_req_id] = sampled

    def _is_due(self, output: Any) -> bool:
        held = self._held.get(output.request_id)
        ends = output.finish_reason is not None
        # of events vLLM counts preemptions
        if held is not None and not ends and not output.events:
            held += output.new_token_ids
            return False
        if held:
            output.new_token_ids = held + output.new_token_ids
        if ends:
            self._held.pop(output.request_id, None)
        else:
            self._held[output.request_id] = []
        return True
