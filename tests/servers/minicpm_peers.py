"""Scripted peers of MiniCPM-o's protocols: a queue before the session, floats in slices, an answer a slice."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from picows import WSTransport

from tests.servers.json_session import JsonSession
from tests.servers.truth import ALL, World

TOKENS = 25
"""By which a slice makes the KV cache longer."""
OUTPUT_RATE = 24_000


class SliceSession(JsonSession):
    """A place is waited for before anything may be sent; every message is a whole slice of floats."""

    prefix = ""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.called = False
        self.names: list[str | None] = []

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        script = self.world.script
        if not script.greet:
            return
        if self.number in script.refuse:
            self.turn_away()
        elif self.number in script.queued:
            self.say({"type": f"{self.prefix}queued", "position": 3, "estimated_wait_s": 45.2, "queue_length": 3})
        else:
            self.world.loop.call_later(script.accept_delay, self.call)

    def call(self) -> None:
        """The session has a place."""
        self.called = True
        self.say({"type": f"{self.prefix}queue_done"})

    def turn_away(self) -> None:
        self.fail("queue_full", "Queue full: too many requests")
        self.close(1013, "Queue full")

    def hear_slice(self, audio: str, name: str | None = None) -> None:
        """A slice, and what the client calls it."""
        samples = np.frombuffer(base64.b64decode(audio, validate=True), dtype="<f4")
        assert self.configured and len(samples) == round(self.world.script.unit * self.rate)
        assert np.isfinite(samples).all() and np.abs(samples).max(initial=0.0) <= 1.0
        self.names.append(name)
        self.add(len(samples))

    def sound(self) -> str:
        """As much speech as a slice lasts."""
        return base64.b64encode(bytes(round(OUTPUT_RATE * self.world.script.unit) * 4)).decode()


class MiniCpmSession(SliceSession):
    """V1: listens, and in every fourth slice speaks: text, then speech, then the end of the turn."""

    prefix = "session."

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "session.init":
            assert self.called, "nothing may be sent in the queue"
            self.configured = True
            self.say({"type": "session.created", "session_id": "rt_1", "mode": "audio", "metrics": self.metrics(0)})
        elif kind == "input.append":
            given = message["input"]
            self.hear_slice(given["audio"], given.get("input_id"))
        elif kind == "session.close":
            self.say({"type": "session.closed", "reason": "stopped"})
            self.close(1000, "")

    def metrics(self, slices: int) -> dict[str, Any]:
        return {"backend": "pytorch", "kv_cache_length": 68 + TOKENS * slices, "wall_clock_ms": 1.0}

    def delta(self, k: int, **more: Any) -> None:
        own = {"session_id": "rt_1", "metrics": self.metrics(k + 1), "server_send_ts": 1764460800.25}
        if self.world.script.variant != "nameless":
            own["input_id"] = self.names[k]
        self.say({"type": "response.output.delta"} | more | own)

    def speak(self, k: int) -> None:
        if k % 4 == 3:
            self.delta(k, kind="text", text=" word", response_id="resp_1")
            self.delta(k, kind="audio", audio=self.sound(), response_id="resp_1")
        self.delta(k, kind="listen")

    def consume(self, k: int) -> None:
        if any(session in (self.number, ALL) and frame == k for session, frame in self.world.script.hollow):
            self.say({"type": "session.closed", "reason": "context_full"})
        super().consume(k)


class DemoSession(SliceSession):
    """One result a chunk; a chunk that fails has an error in its place. Errors are strings."""

    def fail(self, code: str, text: str) -> None:
        self.say({"type": "error", "error": text})

    def say(self, message: dict[str, Any]) -> None:
        if isinstance(body := message.get("error"), dict):
            message = {"type": "error", "error": f"{body['code']}: {body['message']}"}
        super().say(message)

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "prepare":
            assert self.called, "nothing may be sent in the queue"
            assert message["config"]["chunk_ms"] == round(self.world.script.unit * 1000)
            self.configured = True
            self.say({"type": "prepared", "prompt_length": 43})
        elif kind == "audio_chunk":
            self.hear_slice(message["audio_base64"])
        elif kind == "stop":
            self.say({"type": "stopped"})
            self.close(1000, "")

    def speak(self, k: int) -> None:
        if any(session in (self.number, ALL) and frame == k for session, frame, _ in self.world.script.error_at):
            return
        speaks = k % 4 == 3
        self.say(
            {
                "type": "result",
                "is_listen": not speaks,
                "text": " word" if speaks else "",
                "audio_data": self.sound() if speaks else None,
                "end_of_turn": speaks,
                "current_time": k + 1,
                "kv_cache_length": 68 + TOKENS * k,
                "server_send_ts": 1764460800.25,
            }
        )
