"""Scripted peers of the binary protocols: Moshi's `/api/chat` and Kyutai's speech to text.

The behaviour is that of a `truth.Script`; only the dialect differs. Audio is really read, so a message that the real
server would not understand is answered by nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from picows import WSMsgType, WSTransport

from metrobench.endpoints import ogg, opus
from tests.servers.truth import Script, TruthServer, World, _serve, _Session

RATE = 24_000
UNIT = 0.080
MUTE_FRAME = bytes([13 << 3 | 1])  # an Opus packet of two empty 20 ms frames


class _Binary(_Session):
    """What both dialects share: binary messages, fragments, no session to configure."""

    wire = WSMsgType.BINARY

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.rate = RATE

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        script = self.world.script
        if not script.greet or self.number in script.queued:
            return
        if self.number in script.refuse:
            self.turn_away()
            return
        self.world.loop.call_later(script.accept_delay, self.welcome)

    def send(self, message: bytes) -> None:
        """One binary message, in two fragments where the script says so."""
        if not self.open:
            return
        if self.world.script.fragmented:
            middle = len(message) // 2
            self.transport.send(WSMsgType.BINARY, message[:middle], False)
            self.transport.send(WSMsgType.CONTINUATION, message[middle:], True)
        else:
            self.transport.send(WSMsgType.BINARY, message)

    def say(self, message: dict[str, Any]) -> None:
        """Errors of the base class, in this dialect."""
        self.send(self.error_message(message["error"]["code"]))

    def welcome(self) -> None:
        raise NotImplementedError

    def turn_away(self) -> None:
        raise NotImplementedError

    def receive(self, message: bytes) -> None:
        raise NotImplementedError

    def error_message(self, text: str) -> bytes:
        raise NotImplementedError


class MoshiSession(_Binary):
    """Python's server: one reply a frame, two pages of 40 ms each, headers before the first, text where it has some."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.pages = 0

    def welcome(self) -> None:
        rust = self.world.script.variant == "rust"
        self.send(bytes(9) if rust else bytes(1))
        if rust:
            self.send(b"\x01" + self.headers())

    def headers(self) -> bytes:
        self.pages = 2
        return ogg.page(opus.head(RATE), 9, 0, 0, ogg.FIRST) + ogg.page(opus.tags(), 9, 1, 0)

    def turn_away(self) -> None:
        self.close(1013, "busy")

    def receive(self, message: bytes) -> None:
        if message[:1] != b"\x01":
            return
        packets = [packet for packet in ogg.packets(message[1:]) if not opus.is_header(packet)]
        self.add(round(sum(map(opus.duration, packets)) * RATE))

    def speak(self, k: int) -> None:
        before = b"" if self.pages else self.headers()
        pages = [ogg.page(MUTE_FRAME, 9, self.pages + n, 1920 * (self.pages + n - 1)) for n in range(2)]
        self.pages += 2
        if self.world.script.variant == "rust":
            for page in pages:
                self.send(b"\x01" + page)
        else:
            self.send(b"\x01" + before + b"".join(pages))
        if k % 4 == 0:
            self.send(b"\x02 word")

    def error_message(self, text: str) -> bytes:
        return b"\x05" + text.encode()


class KyutaiSession(_Binary):
    """moshi-server: a Step for each frame, whose index counts for all sessions, and words now and then."""

    steps = 0

    def welcome(self) -> None:
        self.pack({"type": "Ready"})

    def turn_away(self) -> None:
        self.send(self.error_message("no free channels"))
        self.close(1005, "")

    def receive(self, message: bytes) -> None:
        said = msgspec.msgpack.decode(message)
        if said["type"] == "Audio":
            assert all(-1.0 <= sample <= 1.0 for sample in said["pcm"])
            self.add(len(said["pcm"]))

    def speak(self, k: int) -> None:
        KyutaiSession.steps += 1
        if k % 4 == 0:
            self.pack({"type": "Word", "text": "word", "start_time": k * UNIT})
        self.pack({"type": "Step", "step_idx": KyutaiSession.steps, "prs": [0.5] * 4, "buffered_pcm": 0})
        if k % 4 == 1:
            self.pack({"type": "EndWord", "stop_time": k * UNIT})

    def pack(self, message: dict[str, Any]) -> None:
        self.send(msgspec.msgpack.encode(message))

    def error_message(self, text: str) -> bytes:
        return msgspec.msgpack.encode({"type": "Error", "message": text})


SESSIONS = {"moshi": MoshiSession, "kyutai-stt": KyutaiSession}
FIRST_READY = {"moshi": {"": 0.16, "rust": 0.24}, "kyutai-stt": {"": 0.08}}
"""Seconds of audio before the first answer, by protocol and variant."""


def binary_script(protocol: str, **changes: Any) -> Script:
    """A script with the frames of a protocol."""
    first_ready = FIRST_READY[protocol][changes.get("variant", "")]
    return Script(dialect=protocol, unit=UNIT, first_ready=first_ready, **changes)


class BinaryServer(TruthServer):
    """The server's process."""

    program = Path(__file__)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    asked = Script(**json.loads(sys.argv[1]))
    uvloop.run(_serve(asked, SESSIONS[asked.dialect]))
