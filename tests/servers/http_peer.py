"""A scripted peer of SGLang's streaming sessions: `/open_session`, `/generate`, `/close_session` over HTTP/1.1.

It looks to a session of `truth` like a WebSocket's transport, as the client's link does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from tests.servers.truth import ALL, GARBAGE, Script, TruthServer, World, _serve, _Session

FRAME_TOKENS = 10
UNIT = 0.2


class SglangHttpSession(_Session):
    """A connection: one session, whose requests are answered in their order, each when its frame is."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.name = ""
        self.at_work = 0

    def on_ws_connected(self, transport: Any) -> None:
        self.transport = transport

    def take(self, path: str, body: dict[str, Any]) -> None:
        """A request."""
        script = self.world.script
        if not script.greet or self.number in script.queued:
            return
        if path == "/open_session":
            self.begin(body)
        elif path == "/generate":
            self.generate(body)
        elif path == "/close_session":
            assert body == {"session_id": self.name}
            self.reply(200, b"")
        else:
            self.reply(404, b'{"detail":"Not Found"}')

    def begin(self, body: dict[str, Any]) -> None:
        assert body["streaming"] is True and body["capacity_of_str_len"] > 0
        if self.number in self.world.script.refuse:
            self.fail("Failed to open the session: too many sessions")
            return
        self.name = body["session_id"]
        self.world.loop.call_later(self.world.script.accept_delay, self.reply, 200, json.dumps(self.name).encode())

    def generate(self, body: dict[str, Any]) -> None:
        assert body["session_params"] == {"id": self.name} and body["stream"] is False
        assert len(body["input_ids"]) == FRAME_TOKENS and body["sampling_params"]["max_new_tokens"] == 1
        self.world.first_audio = self.world.first_audio or time.monotonic()
        k, self.frame = self.frame, self.frame + 1
        self.consume(k)

    def speak(self, k: int) -> None:
        script = self.world.script
        said = [(session, frame) for session, frame, _ in script.error_at] + script.garbage_at
        if any(session in (self.number, ALL) and frame == k for session, frame in said):
            return
        hollow = any(session in (self.number, ALL) and frame == k for session, frame in script.hollow)
        meta: dict[str, Any] = {"id": f"r{k}", "prompt_tokens": FRAME_TOKENS * (k + 1)}
        meta["completion_tokens"] = 0 if hollow else 1
        answer: dict[str, Any] = {"text": "w", "output_ids": [7], "meta_info": meta | {"e2e_latency": 0.01}}
        if script.strange:
            answer |= {"x_unknown": [{"y": None}]}
        self.reply(200, json.dumps(answer).encode())

    def fail(self, text: str) -> None:
        self.reply(400, json.dumps({"error": {"message": text}}).encode())

    def say(self, message: dict[str, Any]) -> None:
        """Errors of the base class, in this dialect: in the place of an answer."""
        self.fail(f"{message['error']['code']}: {message['error']['message']}")

    def reply(self, status: int, body: bytes) -> None:
        """A response; cut in two, and its body in chunks, where the script wants fragments."""
        if not self.open:
            return
        head = f"HTTP/1.1 {status} X\r\nserver: uvicorn\r\ncontent-type: application/json\r\n".encode()
        if not self.world.script.fragmented:
            self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
            return
        middle = len(body) // 2
        parts = b"".join(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in (body[:middle], body[middle:]) if part)
        whole = b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
        self.transport.write(whole[:40])
        self.world.loop.call_later(0.001, self.transport.write, whole[40:])

    def close(self, code: int, reason: str) -> None:
        self.open = False
        self.transport.close()


class Connection(asyncio.Protocol):
    """Requests out of bytes; to its session it is the transport."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bytes = b""

    def connection_made(self, transport: Any) -> None:
        self.underlying_transport = transport
        self._session = self._world.listener(None)
        self._session.on_ws_connected(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        while (end := self._bytes.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._bytes[:end].decode().split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            assert fields["host"] and fields["content-type"] == "application/json"
            size = int(fields["content-length"])
            if len(self._bytes) < end + 4 + size:
                return
            body, self._bytes = self._bytes[end + 4 : end + 4 + size], self._bytes[end + 4 + size :]
            method, path, version = first.split(" ")
            assert (method, version) == ("POST", "HTTP/1.1")
            self._session.take(path, json.loads(body))  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        self._session.on_ws_disconnected(self)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        """Answer."""
        self.underlying_transport.write(data)

    def send(self, _kind: Any, data: bytes) -> None:
        """What the base class sends is garbage, which here is a response nobody can read."""
        assert data == GARBAGE
        self.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data))

    def close(self) -> None:
        """The end, after what was said."""
        self.underlying_transport.close()

    def disconnect(self, graceful: bool = True) -> None:
        """The end, at once."""
        self.underlying_transport.abort()


async def listen(world: World) -> asyncio.Server:
    """The server of a world."""
    return await world.loop.create_server(lambda: Connection(world), "127.0.0.1", 0, backlog=1024)


def http_script(**changes: Any) -> Script:
    """A script with the frames of the tests."""
    return Script(**{"dialect": "sglang-sessions", "unit": UNIT, "first_ready": UNIT, **changes})


class HttpServer(TruthServer):
    """The server's process."""

    program = Path(__file__)

    @property
    def url(self) -> str:
        """Address of the scripted server."""
        return f"http://127.0.0.1:{self.port}"


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    uvloop.run(_serve(Script(**json.loads(sys.argv[1])), SglangHttpSession, listen))
