"""Scripted peers of the JSON protocols. The behaviour is that of a `truth.Script`; only the dialect differs.

A peer is as strict as the server it stands for: what that one would refuse, it refuses as well.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from metrobench.endpoints import ogg, opus
from tests.servers.json_session import JsonSession
from tests.servers.minicpm_peers import DemoSession, MiniCpmSession
from tests.servers.truth import ALL, Script, TruthServer, World, _serve

MODEL = "the-model"
PIECES = 3
PIECE = 0.04
"""Seconds of speech in a piece of an answer, and their number."""


class VllmSession(JsonSession):
    """One delta a frame, mostly empty; an error is a string, and a session that has no place is never answered."""

    started = False
    finals = 0

    def greet(self) -> None:
        self.say({"type": "session.created", "id": f"sess-{self.number:016x}", "created": 1764460800})

    def turn_away(self) -> None:
        self.say({"type": "session.created", "id": "sess-0", "created": 1764460800})
        self.say({"type": "error", "error": "Engine is full", "code": "model_not_validated"})

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "session.update":
            self.configured = message.get("model") == MODEL
            if not self.configured:
                self.say({"type": "error", "error": "no such model", "code": "model_not_found"})
        elif kind == "input_audio_buffer.commit":
            if message.get("final"):
                self.say({"type": "transcription.done", "text": "all", "usage": {"prompt_tokens": 39}})
            elif not self.configured:
                self.say({"type": "error", "error": "no model yet", "code": "model_not_validated"})
            self.started = self.configured
        elif kind == "input_audio_buffer.append" and self.started:
            self.heard(message["audio"])

    def speak(self, k: int) -> None:
        deltas = 3 if self.world.script.unit >= 1.0 else 1
        for _ in range(deltas):
            self.say({"type": "transcription.delta", "delta": "" if k % 4 and deltas == 1 else " word"})

    def say(self, message: dict[str, Any]) -> None:
        if isinstance(body := message.get("error"), dict):
            message = {"type": "error", "error": body["message"], "code": body["code"]}
        super().say(message)

    def consume(self, k: int) -> None:
        for session, frame in self.world.script.hollow:
            if session in (self.number, ALL) and frame == k:
                self.say({"type": "transcription.done", "text": "full", "usage": {}})
        super().consume(k)


class OmniSession(JsonSession):
    """Listens to most units and speaks in every fourth; closes by `session.closed` and 1000."""

    speaks_first = False
    serial = 0

    def say(self, message: dict[str, Any]) -> None:
        self.serial += 1
        super().say(message | {"event_id": f"s{self.serial}", "server_event_seq": self.serial})

    def turn_away(self) -> None:
        error = {"type": "rate_limit_error", "code": "resource_exhausted", "message": "capacity exhausted: limit=1"}
        self.say({"type": "error", "error": error})
        self.world.loop.call_later(0.01, self.transport.disconnect, False)

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "session.update":
            assert message["session"]["extra_body"]["auto_response"] is True
            able = {"chunk_period_ms": self.world.script.unit * 1000.0}
            session = {"id": f"duplex-{self.number}", "epoch": 0, "capabilities": able}
            self.later(self.world.script.accept_delay, {"type": "session.created", "session": session})
        elif kind == "input_audio_buffer.append":
            self.heard(message["audio"])
        elif kind == "session.close":
            self.say({"type": "session.closed", "reason": "client_request"})
            self.close(1000, "")

    def speak(self, k: int) -> None:
        if k % 4 != 3:
            self.say({"type": "response.listen", "epoch": 0, "response": {"status": "listening"}})
            return
        unit = self.world.script.unit
        self.say({"type": "response.created", "response_id": "r", "response": {"id": "r"}})
        self.say({"type": "response.speak", "response_id": "r"})
        sound = base64.b64encode(bytes(round(24_000 * unit) * 2)).decode()
        meta = {"audio_duration_ms": unit * 1000.0, "end_of_turn": True}
        self.say(
            {"type": "response.output_audio.delta", "response_id": "r", "delta": sound, "sample_rate_hz": 24000}
            | {"metadata": meta}
        )
        self.say({"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": ""})
        self.say({"type": "response.done", "response": {"id": "r", "status": "completed"}})


class SglangSession(JsonSession):
    """Strict: an id on every event, nothing unknown, audio numbered without a gap."""

    seq = 0

    def greet(self) -> None:
        self.say({"type": "session.created", "session": {"id": "s", "model": MODEL, "sglang": {"granted": None}}})

    def turn_away(self) -> None:
        error = {"type": "server_error", "code": "too_many_sessions", "message": "no room"}
        self.say({"type": "error", "error": error, "sglang": {"fatal": True}})
        self.close(1013, "no room")

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        allowed = {"type", "event_id", "session", "audio", "sglang"}
        if not message.get("event_id") or message.keys() - allowed:
            self.fail("invalid_request", "Extra inputs are not permitted, event_id is required")
        elif kind == "session.update":
            granted = {"sglang": {"granted": {"native_unit_ms": self.world.script.unit * 1000}}}
            self.say({"type": "session.updated", "session": granted, "client_event_id": message["event_id"]})
            self.configured = True
        elif kind == "input_audio_buffer.append" and self.configured:
            if message["sglang"] != {"seq": self.seq}:
                self.fail("invalid_state", "audio seq must be contiguous")
                return
            self.seq += 1
            self.say({"type": "sglang.input_audio.accepted", "seq": self.seq - 1, "accepted_end_ms": 20.0 * self.seq})
            self.heard(message["audio"])
        elif kind == "session.close":
            self.say({"type": "session.closed", "reason": "client_request"})
            self.close(1000, "")

    def speak(self, k: int) -> None:
        unit = self.world.script.unit * 1000.0
        place = {"unit_id": f"unit_{k}", "chunk_seq": 0, "media_time": {"t_start_ms": k * unit, "duration_ms": unit}}
        self.say({"type": "response.output_text.delta", "delta": "w", "sglang": place})
        self.say({"type": "sglang.unit.done", "unit_id": f"unit_{k}", "sglang": place})


class OpenAiSession(JsonSession):
    """A turn is over when its audio is: its answer is some pieces of speech."""

    hertz = 24_000
    old = False

    def say(self, message: dict[str, Any]) -> None:
        super().say({"event_id": "event_1"} | message)

    def session(self) -> dict[str, Any]:
        own = {"id": f"sess_{self.number}", "object": "realtime.session", "model": "gpt-realtime"}
        if self.old:
            return own | {"modalities": ["audio", "text"], "input_audio_format": "pcm16"}
        return own | {"type": "realtime", "output_modalities": ["audio"], "audio": {}}

    def greet(self) -> None:
        self.say({"type": "session.created", "event_id": "e0", "session": self.session()})

    def turn_away(self) -> None:
        self.fail("rate_limit_exceeded", f"too many sessions for {self.world.token}")
        self.close(1013, f"bye {self.world.token}")

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "session.update":
            said = message["session"]
            good = "input_audio_format" in said if self.old else said["type"] == "realtime"
            if good:
                self.say({"type": "session.updated", "event_id": "e1", "session": self.session()})
            else:
                self.fail("invalid_value", "the session has the wrong shape")
            self.configured = good
        elif kind == "input_audio_buffer.append" and self.configured:
            self.heard(message["audio"])
        elif kind == "session.finish":
            self.say({"type": "session.finished"})

    def piece(self) -> str:
        return base64.b64encode(bytes(round(24_000 * PIECE) * 2)).decode()

    def speak(self, k: int) -> None:
        name = "response.audio.delta" if self.old else "response.output_audio.delta"
        where = {"event_id": "e", "response_id": f"r{k}", "item_id": "i", "output_index": 0, "content_index": 0}
        self.say({"type": "response.created", "event_id": "e", "response": {"id": f"r{k}", "status": "in_progress"}})
        hollow = any(s in (self.number, ALL) and f == k for s, f in self.world.script.hollow)
        pace = self.world.script.pace
        for number in range(0 if hollow else PIECES):
            self.later(number * pace, {"type": name, "delta": self.piece(), **where})
        done = {"id": f"r{k}", "status": "failed" if hollow else "completed", "output": []}
        if hollow:
            done["status_details"] = {"type": "failed", "error": {"type": "server_error", "code": "overloaded"}}
        self.later(PIECES * pace, {"type": "response.done", "event_id": "e", "response": done})


class BetaSession(OpenAiSession):
    old = True


class QwenSession(BetaSession):
    hertz = 16_000


class UnmuteSession(BetaSession):
    """Opus in Ogg, and silence until it is configured."""

    speaks_first = False

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.packets = 0
        self.pages = 0

    def take(self, message: dict[str, Any]) -> None:
        if message["type"] == "session.update":
            assert isinstance(message["session"]["allow_recording"], bool)
            self.later(self.world.script.accept_delay, {"type": "session.updated", "session": message["session"]})
        elif message["type"] == "input_audio_buffer.append":
            pages = base64.b64decode(message["audio"], validate=True)
            if not self.packets:
                assert pages[5] & 2, "a stream begins with its first page"
            for packet in ogg.packets(pages):
                self.packets += 1
                if not opus.is_header(packet):
                    self.add(round(opus.duration(packet) * self.rate))

    def turn_away(self) -> None:
        self.say({"type": "error", "error": {"type": "fatal", "message": "too many people are connected"}})
        self.close(1011, "")

    def piece(self) -> str:
        packet = bytes([13 << 3 | 1])  # two empty frames of 20 ms
        pages = b"".join(ogg.page(packet, 9, self.pages + n, 0) for n in range(round(PIECE / 0.04)))
        self.pages += round(PIECE / 0.04)
        return base64.b64encode(pages).decode()


class TranslationSession(JsonSession):
    """A stream of output with the time of the audio it stands for."""

    hertz = 24_000

    def greet(self) -> None:
        session = {"id": "t", "type": "translation", "model": MODEL, "expires_at": 1, "audio": {}}
        self.say({"type": "session.created", "session": session})

    def turn_away(self) -> None:
        self.fail("rate_limit_exceeded", "too many sessions")
        self.close(1013, "try again later")

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "session.update":
            assert message["session"]["audio"]["output"]["language"]
            self.say({"type": "session.updated", "session": {}})
        elif kind == "session.input_audio_buffer.append":
            self.heard(message["audio"])
        elif kind == "session.close":
            self.say({"type": "session.closed"})
            self.close(1000, "")

    def speak(self, k: int) -> None:
        end = (k + 1) * self.world.script.unit * 1000.0
        sound = base64.b64encode(bytes(4800)).decode()
        self.say({"type": "session.output_audio.delta", "delta": sound, "elapsed_ms": end, "format": "pcm16"})
        self.say({"type": "session.output_transcript.delta", "delta": "la", "elapsed_ms": end})


@dataclass(frozen=True)
class Peer:
    """A peer, and the frames of tests with it."""

    kind: type[JsonSession]
    unit: float
    first_ready: float
    frame_class: str

    @property
    def rate(self) -> int:
        """Hz of the audio that it takes."""
        return self.kind.hertz


PEERS = {
    "vllm-realtime": Peer(VllmSession, 0.08, 0.5625, "A"),
    "vllm-realtime/segments": Peer(VllmSession, 1.0, 1.0, "C"),
    "vllm-omni": Peer(OmniSession, 0.1, 0.1, "B"),
    "sglang-omni": Peer(SglangSession, 0.1, 0.1, "A"),
    "openai": Peer(OpenAiSession, 0.6, 0.6, "D"),
    "openai-beta": Peer(BetaSession, 0.6, 0.6, "D"),
    "azure": Peer(BetaSession, 0.6, 0.6, "D"),
    "qwen": Peer(QwenSession, 0.6, 0.6, "D"),
    "unmute": Peer(UnmuteSession, 0.6, 0.6, "D"),
    "openai-translation": Peer(TranslationSession, 0.2, 0.2, "B"),
    "minicpm-o": Peer(MiniCpmSession, 0.2, 0.2, "B"),
    "minicpm-o-demo": Peer(DemoSession, 0.2, 0.2, "A"),
}
"""By dialect; after a slash, which kind of model serves it."""


def json_script(dialect: str, **changes: Any) -> Script:
    """A script with the frames of a dialect."""
    peer = PEERS[dialect]
    return Script(**{"dialect": dialect, "unit": peer.unit, "first_ready": peer.first_ready, **changes})


class JsonServer(TruthServer):
    """The server's process."""

    program = Path(__file__)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    asked = Script(**json.loads(sys.argv[1]))
    uvloop.run(_serve(asked, PEERS[asked.dialect].kind))
