"""A scripted server in the dialect of the embedded worker: it does exactly what its script says, so the truth is known.

It runs in a process of its own: `with TruthServer(Script(...)) as server: server.url`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server

ALL = -1
"""Stands for every session or every frame in a script."""
TICK = 0.02
"""Seconds between two looks at how late the server's own loop is."""
GARBAGE = b"\x01\xc1{\xff[\x00"
"""Neither JSON nor MessagePack nor Ogg."""
HALF = b"\x81\x7e\x04\x00" + b'{"type":"response.created","delta":"'
"""The first bytes of a text frame of 1024."""
LAST_WORDS = 10.0
"""Seconds in which the server's process must have ended by itself."""


@dataclass
class Script:
    """What the server does. Sessions are numbered in the order of their handshakes, frames from 0."""

    unit: float = 0.2
    first_ready: float = 0.2
    latency: float = 0.005
    """Seconds from the arrival of a frame's last chunk to its answer."""
    service: float = 0.0
    """Seconds a frame takes in one queue shared by all sessions, on top of the latency: capacity is unit / service."""
    late: list[tuple[int, int, float]] = field(default_factory=list)
    """(session, frame, seconds): latency of single frames; ALL matches any."""
    hollow: list[tuple[int, int]] = field(default_factory=list)
    """(session, frame): answered in time and without content."""
    silent_from: list[tuple[int, int]] = field(default_factory=list)
    """(session, frame): no answer from this frame on, the socket stays open."""
    close_at: list[tuple[int, int, int, str]] = field(default_factory=list)
    """(session, frame, code, reason): closed when this frame is complete."""
    cut_at: list[tuple[int, int]] = field(default_factory=list)
    """(session, frame): the connection is reset, with no close."""
    error_at: list[tuple[int, int, str]] = field(default_factory=list)
    """(session, frame, code): an error message."""
    garbage_at: list[tuple[int, int]] = field(default_factory=list)
    """(session, frame): a message that no protocol knows comes before the answer."""
    half_at: list[tuple[int, int]] = field(default_factory=list)
    """(session, frame): half of a WebSocket frame comes in place of the answer, and nothing after it."""
    refuse: list[int] = field(default_factory=list)
    """Sessions that get `session_limit` and close 1013."""
    limit: int = 0
    """Sessions at a time; one more is refused with its signals, code `overloaded` and close 1013. 0: no limit."""
    stall: tuple[float, float] | None = None
    """(start, length): seconds after the first audio in which no answer leaves; they leave at its end."""
    greet: bool = True
    """False: the handshake succeeds and nothing is ever said."""
    accept_delay: float = 0.0
    """Seconds from session.update to session.updated."""
    handshake_delay: float = 0.0
    """Seconds by which each handshake holds up the server."""
    raw: str = ""
    """Bytes that every connection gets in place of a WebSocket handshake (`-` for none), then it stays open."""
    fragmented: bool = False
    """Answers come in two WebSocket fragments."""
    unread: bool = False
    """The server does not read after the acceptance."""
    fills: bool = True
    """False: sessions cannot be given resident tokens."""
    deltas: bool = True
    """Content comes in deltas before the complete answer."""
    dialect: str = "realtime"
    """Wire protocol; those of `binary` run there."""
    variant: str = ""
    """Which of several servers of a protocol."""
    queued: list[int] = field(default_factory=list)
    """Sessions that connect and hear nothing: they wait for a place."""
    dropped: list[tuple[int, int]] = field(default_factory=list)
    """(session, frame): never answered, while the next ones are."""
    doubled: list[tuple[int, int]] = field(default_factory=list)
    """(session, frame): answered twice."""
    strange: bool = False
    """Among its messages are some of unknown types, and fields that nobody knows."""
    pace: float = 0.0
    """Seconds between two pieces of a spoken answer."""
    jitter: float = 0.0
    """Seconds: every second frame takes so much longer."""


class _Session(WSListener):  # type: ignore[misc]
    wire = WSMsgType.TEXT

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.samples = 0
        self.rate = 24_000
        self.frame = 0
        self.open = True
        self.counted = False
        self.parts = bytearray()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        script = self.world.script
        if not script.greet:
            return
        if self.number in script.refuse:
            self.say({"type": "error", "error": {"type": "server_error", "code": "session_limit", "message": "full"}})
            self.close(1013, "session limit")
            return
        if script.limit and self.world.open >= script.limit:
            own = {"sessions": self.world.open, "cap": script.limit, "retry_after_ms": 4000.0}
            error = {"type": "server_error", "code": "overloaded", "message": "full for now", "metrobench": own}
            self.say({"type": "error", "error": error})
            self.close(1013, "overloaded")
            return
        self.counted = True
        self.world.open += 1
        self.say({"type": "session.created", "session": self.describe(0)})

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            self.open = False
            transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif frame.msg_type in (self.wire, WSMsgType.CONTINUATION):
            self.parts += frame.get_payload_as_bytes()
            if frame.fin:
                message = bytes(self.parts)
                self.parts.clear()
                self.receive(message)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.open = False
        self.world.open -= self.counted
        self.counted = False

    def receive(self, message: bytes) -> None:
        """A whole message."""
        if self.world.script.greet:
            self.handle(json.loads(message))

    def handle(self, message: dict[str, Any]) -> None:
        world = self.world
        if message["type"] == "session.update":
            session = message["session"]
            self.rate = session["audio"]["input"]["format"]["rate"]
            fill = session.get("metrobench", {}).get("fill_tokens", 0)
            world.loop.call_later(world.script.accept_delay, self.accept, fill)
        elif message["type"] == "input_audio_buffer.append":
            self.add(len(message["audio"]) * 3 // 4 // 2 - message["audio"].count("=") // 2)

    def add(self, samples: int) -> None:
        """So many more samples of audio, and the frames that they complete."""
        script = self.world.script
        self.world.first_audio = self.world.first_audio or time.monotonic()
        self.samples += samples
        while self.open and self.samples >= round((script.first_ready + self.frame * script.unit) * self.rate):
            self.consume(self.frame)
            self.frame += 1

    def accept(self, fill: int) -> None:
        self.say({"type": "session.updated", "session": self.describe(fill)})
        if self.world.script.unread:
            self.transport.underlying_transport.pause_reading()

    def consume(self, k: int) -> None:
        script, world = self.world.script, self.world
        for session, frame, code, reason in script.close_at:
            if session in (self.number, ALL) and frame == k:
                self.close(code, reason)
                return
        if any(session in (self.number, ALL) and frame == k for session, frame in script.cut_at):
            self.open = False
            self.transport.disconnect(False)
            return
        for session, frame, code in script.error_at:
            if session in (self.number, ALL) and frame == k:
                self.say({"type": "error", "error": {"type": "server_error", "code": code, "message": "scripted"}})
        if any(session in (self.number, ALL) and frame == k for session, frame in script.garbage_at):
            self.transport.send(self.wire, GARBAGE)
        if any(session in (self.number, ALL) and frame == k for session, frame in script.half_at):
            self.transport.underlying_transport.write(HALF)
            self.open = False
            return
        if any(session in (self.number, ALL) and k >= frame for session, frame in script.silent_from):
            return
        world.loop.call_at(world.answer_time(self.number, k), self.answer, k)

    def times(self, k: int) -> int:
        """How often a frame is answered: twice, never, or once."""
        script = self.world.script
        if any(session in (self.number, ALL) and frame == k for session, frame in script.dropped):
            return 0
        return 2 if any(session in (self.number, ALL) and frame == k for session, frame in script.doubled) else 1

    def answer(self, k: int) -> None:
        for _ in range(self.times(k)):
            self.speak(k)

    def speak(self, k: int) -> None:
        script = self.world.script
        unit = script.unit * 1000
        hollow = any(s in (self.number, ALL) and f in (k, ALL) for s, f in script.hollow)
        if script.deltas and not hollow:
            self.say({"type": "response.output_text.delta", "response_id": "r", "item_id": "i", "delta": f"w{k}"})
        self.say(
            {
                "type": "metrobench.frame.done",
                "event_id": f"e{k}",
                "frame": k,
                "media_time": {"start_ms": k * unit, "duration_ms": unit},
                "tokens": 0 if hollow else 3,
                "speaking": not hollow,
                "resident_tokens": 10 * k,
            }
        )

    def describe(self, filled: int) -> dict[str, Any]:
        script = self.world.script
        own = {
            "unit_ms": script.unit * 1000,
            "first_ready_ms": script.first_ready * 1000,
            "filled_tokens": filled,
            "can_fill": script.fills,
        }
        return {"id": f"sess_{self.number}", "type": "realtime", "metrobench": own}

    def say(self, message: dict[str, Any]) -> None:
        if not self.open:
            return
        text = json.dumps(message).encode()
        if self.world.script.fragmented:
            middle = len(text) // 2
            self.transport.send(WSMsgType.TEXT, text[:middle], False)
            self.transport.send(WSMsgType.CONTINUATION, text[middle:], True)
        else:
            self.transport.send(WSMsgType.TEXT, text)

    def close(self, code: int, reason: str) -> None:
        self.open = False
        self.transport.send_close(code, reason)
        self.world.loop.call_later(0.2, self.transport.disconnect)


class World:
    """The state that all sessions share."""

    def __init__(self, script: Script, loop: asyncio.AbstractEventLoop, kind: type[_Session] = _Session) -> None:
        self.script = script
        self.kind = kind
        self.loop = loop
        self.first_audio = 0.0
        self.free_at = 0.0
        self.sessions = 0
        self.open = 0
        self.token = ""
        """What the newest handshake brought as its authorization."""

    def listener(self, request: Any) -> _Session:
        """A new connection."""
        time.sleep(self.script.handshake_delay)
        self.token = str(request.headers.get("Authorization", "")) if request is not None else ""
        self.sessions += 1
        return self.kind(self, self.sessions - 1)

    def answer_time(self, session: int, frame: int) -> float:
        """When a frame that is complete now is answered, on the loop's clock."""
        now = time.monotonic()
        latency = self.script.latency + self.script.jitter * (frame % 2)
        for s, f, seconds in self.script.late:
            if s in (session, ALL) and f in (frame, ALL):
                latency = seconds
        self.free_at = max(self.free_at, now) + self.script.service
        when = self.free_at + latency
        if self.script.stall:
            start = self.first_audio + self.script.stall[0]
            end = start + self.script.stall[1]
            if start <= when < end:
                when = end
        return self.loop.time() + when - now


async def _serve(script: Script, kind: type[_Session] = _Session, listen: Any = None) -> None:
    loop = asyncio.get_running_loop()
    world = World(script, loop, kind)
    if script.raw:
        server = await asyncio.start_server(_raw(script.raw), "127.0.0.1", 0)
    elif listen is not None:
        server = await listen(world)
    else:
        server = await ws_create_server(world.listener, "127.0.0.1", 0, websocket_handshake_timeout=None, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(0, ended.set)
    latest = 0.0
    while not ended.is_set():
        due = loop.time() + TICK
        await asyncio.sleep(TICK)
        if world.first_audio:
            latest = max(latest, loop.time() - due)
    print(latest, flush=True)


def _raw(text: str) -> Any:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        if text != "-":
            writer.write(text.encode())
            await writer.drain()
        await reader.read()
        writer.close()

    return answer


class TruthServer:
    """The server's process, as a context manager."""

    program = Path(__file__)

    def __init__(self, script: Script) -> None:
        self.script = script
        self.held_up = 0.0
        """Seconds by which the machine made the server late, at most; known at the end."""

    def __enter__(self) -> TruthServer:
        self.process = subprocess.Popen(
            [sys.executable, str(self.program), json.dumps(asdict(self.script))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])),
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            said, _ = self.process.communicate(timeout=LAST_WORDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            said, _ = self.process.communicate()
        self.held_up = float(said or "inf")

    @property
    def url(self) -> str:
        """Address of the scripted endpoint."""
        return f"ws://127.0.0.1:{self.port}/v1/realtime"


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    uvloop.run(_serve(Script(**json.loads(sys.argv[1]))))
