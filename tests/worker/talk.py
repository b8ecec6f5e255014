"""A plain client for tests against a real worker."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

HANG = 60.0
RATE = 16_000


def loud(seconds: float) -> bytes:
    """A tone that counts as speech."""
    return (8000 * np.sin(np.arange(round(RATE * seconds)) / 3)).astype("<i2").tobytes()


def quiet(seconds: float) -> bytes:
    """Silence: the model speaks."""
    return bytes(2 * round(RATE * seconds))


class Talk:
    """One session."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.created: dict[str, Any] = {}

    @classmethod
    async def connect(cls, url: str) -> Talk:
        """A connection to which nothing was said yet."""
        return cls(await connect(url, ping_interval=None, max_size=None, open_timeout=HANG))

    async def event(self, kind: str) -> dict[str, Any]:
        """The next event of this type; an error event fails unless it is asked for."""
        async with asyncio.timeout(HANG):
            while True:
                event: dict[str, Any] = json.loads(await self.socket.recv())
                if event["type"] == kind:
                    return event
                assert event["type"] != "error", event

    async def audio(self, pcm: bytes) -> None:
        encoded = base64.b64encode(pcm).decode()
        await self.socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": encoded}))

    async def frames(self, pcm: bytes, count: int) -> list[dict[str, Any]]:
        """Send audio and wait for `count` frames."""
        await self.audio(pcm)
        return [await self.event("metrobench.frame.done") for _ in range(count)]

    async def close_code(self) -> int | None:
        async with asyncio.timeout(HANG):
            await self.socket.wait_closed()
        return self.socket.close_code


async def talk(url: str, fill: int = 0) -> Talk:
    """A configured session, filled."""
    session = await Talk.connect(url)
    session.created = await session.event("session.created")
    update: dict[str, Any] = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": RATE}}}}
    if fill:
        update["metrobench"] = {"fill_tokens": fill}
    await session.socket.send(json.dumps({"type": "session.update", "session": update}))
    updated = await session.event("session.updated")
    assert updated["session"]["metrobench"].get("filled_tokens", 0) == fill
    return session
