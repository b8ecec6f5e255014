"""What the scripted peers of the JSON protocols share."""

from __future__ import annotations

import base64
import json
from typing import Any

from picows import WSTransport

from tests.servers.truth import World, _Session


class JsonSession(_Session):
    """What the dialects share."""

    hertz = 16_000
    """Of the audio it takes."""
    speaks_first = True

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.rate = self.hertz
        self.configured = False
        self.clock = 0

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        script = self.world.script
        if not script.greet or self.number in script.queued:
            return
        if self.number in script.refuse:
            self.turn_away()
        elif self.speaks_first:
            self.world.loop.call_later(script.accept_delay, self.greet)

    def receive(self, message: bytes) -> None:
        if self.world.script.greet and self.open and self.number not in self.world.script.queued:
            self.take(json.loads(message))

    def say(self, message: dict[str, Any]) -> None:
        if self.world.script.strange and message["type"] != "error":
            super().say({"type": "server.says.hello", "deep": [{"a": None}] * 3})
            message = message | {"x_unknown": {"y": [1, 2.5, "z"]}}
        super().say(message)

    def heard(self, audio: str, rate: int | None = None) -> None:
        """Audio in base64 has come."""
        self.add(len(base64.b64decode(audio, validate=True)) // 2)

    def later(self, seconds: float, message: dict[str, Any]) -> None:
        self.world.loop.call_later(seconds, self.say, message)

    def fail(self, code: str, text: str) -> None:
        self.say({"type": "error", "error": {"type": "invalid_request_error", "code": code, "message": text}})

    def greet(self) -> None:
        raise NotImplementedError

    def turn_away(self) -> None:
        raise NotImplementedError

    def take(self, message: dict[str, Any]) -> None:
        raise NotImplementedError
