"""The response that a conversation speaks, from its first token to `response.done`."""

from __future__ import annotations

from typing import Any

from metrobench.worker.outbox import Outbox


class Response:
    """One response of text; `say` as often as there are tokens, then `finish` once."""

    def __init__(self, outbox: Outbox, tail: str) -> None:
        """Announces itself. `tail`: what makes its ids unique."""
        self._outbox = outbox
        self._id, self._item_id = f"resp_{tail}", f"item_r{tail}"
        self._text: list[str] = []
        outbox.emit("response.created", response=self._describe("in_progress", None, 0))
        item = self._item("in_progress", None)
        outbox.emit("response.output_item.added", response_id=self._id, output_index=0, item=item)
        self._emit_part("response.content_part.added", part={"type": "text", "text": ""})

    def say(self, tokens: list[int]) -> None:
        """These token ids, as words."""
        if not tokens:
            return
        text = "".join([f"t{token} " for token in tokens])
        self._text.append(text)
        self._outbox.write(
            "response.output_text.delta",
            f'"response_id":"{self._id}","item_id":"{self._item_id}","output_index":0,"content_index":0,"delta":"{text}"',
        )

    def finish(self, status: str, reason: str | None, total: int) -> None:
        """The end. `total`: tokens that the session has taken in."""
        text = "".join(self._text)
        self._emit_part("response.output_text.done", text=text)
        self._emit_part("response.content_part.done", part={"type": "text", "text": text})
        item = self._item(_ended(status), text)
        self._outbox.emit("response.output_item.done", response_id=self._id, output_index=0, item=item)
        self._outbox.emit("response.done", response=self._describe(status, reason, total))

    def _emit_part(self, kind: str, **fields: Any) -> None:
        place = {"response_id": self._id, "item_id": self._item_id, "output_index": 0, "content_index": 0}
        self._outbox.emit(kind, **place, **fields)

    def _describe(self, status: str, reason: str | None, total: int) -> dict[str, Any]:
        details = None if status in ("in_progress", "completed") else {"type": status, "reason": reason}
        output, usage = [], None
        if status != "in_progress":
            output = [self._item(_ended(status), "".join(self._text))]
            spoken = sum(text.count(" ") for text in self._text)
            usage = {"total_tokens": total + spoken, "input_tokens": total, "output_tokens": spoken}
        return {
            "id": self._id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output_modalities": ["text"],
            "output": output,
            "usage": usage,
        }

    def _item(self, status: str, text: str | None) -> dict[str, Any]:
        content = [] if text is None else [{"type": "output_text", "text": text}]
        return {
            "id": self._item_id,
            "object": "realtime.item",
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }


def _ended(status: str) -> str:
    return "completed" if status == "completed" else "incomplete"
