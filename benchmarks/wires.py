"""What the sink says in each wire protocol: no more than its server would, made once and sent as it is.

It does not read what it gets. After the messages that configure a session every WebSocket frame of at least `smallest`
bytes is a chunk of audio, so heads, tails and goodbyes are none. Where a message with many chunks goes out at once, the
last of its fragments is what is due.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from metrobench.endpoints import ogg, opus

MOSHI_RATE, OUTPUT_RATE = 24_000, 24_000
MUTE_FRAME = bytes([13 << 3 | 1])  # an Opus packet of two empty 20 ms frames

Answer = Callable[[int], list[bytes]]
"""Messages that answer frame k."""


@dataclass(frozen=True)
class Wire:
    """One protocol."""

    unit: float
    """Seconds of audio in a frame, where the model says."""
    rate: int
    """Hz, likewise."""
    answer: Answer
    hello: tuple[bytes, ...] = ()
    """What it says first."""
    controls: int = 1
    """Messages that configure a session, before its audio."""
    accepted: tuple[bytes, ...] = ()
    """What it says after them."""
    acknowledge: Callable[[int], bytes] | None = None
    """What it says to chunk j."""
    smallest: int = 300
    """Bytes of the smallest chunk."""
    step: int = 1
    """Chunks in a message that goes out at once."""
    binary: bool = False


def _text(**event: Any) -> bytes:
    return json.dumps(event).encode()


def _created(**session: Any) -> bytes:
    return _text(type="session.created", session=session)


def _turn(name: str, audio: str) -> Answer:
    made = [
        _text(type="response.created", response={"id": "r", "status": "in_progress"}),
        *[_text(type=name, response_id="r", item_id="i", output_index=0, content_index=0, delta=audio)] * 5,
        _text(type="response.done", response={"id": "r", "status": "completed", "output": []}),
    ]
    return lambda _: made


def _silence(seconds: float, width: int = 2) -> str:
    return base64.b64encode(bytes(round(OUTPUT_RATE * seconds) * width)).decode()


def _always(*messages: bytes) -> Answer:
    made = list(messages)
    return lambda _: made


def _pages(packets: list[bytes]) -> bytes:
    return b"".join(ogg.page(packet, 9, 0, 0) for packet in packets)


_HEADERS = ogg.page(opus.head(MOSHI_RATE), 9, 0, 0, ogg.FIRST) + ogg.page(opus.tags(), 9, 1, 0)
_MOSHI = b"\x01" + _pages([MUTE_FRAME] * 2)
_OLD = {"type": "session.updated"}
_SPEECH, _OLD_SPEECH = "response.output_audio.delta", "response.audio.delta"


def _unit_done(k: int) -> list[bytes]:
    return [b'{"type":"sglang.unit.done","unit_id":"unit_%d"}' % k]


def _accepted(j: int) -> bytes:
    return b'{"type":"sglang.input_audio.accepted","seq":%d,"accepted_end_ms":%d}' % (j, (j + 1) * 20)


def _translated(k: int) -> list[bytes]:
    end = (k + 1) * 200
    return [b'{"type":"session.output_audio.delta","elapsed_ms":%d,"delta":"%b"}' % (end, _TRANSLATED)]


def _listen(k: int) -> list[bytes]:
    return [b'{"type":"response.output.delta","kind":"listen","input_id":"slice-%d"}' % k]


def _frame_done(k: int) -> list[bytes]:
    return [b'{"type":"metrobench.frame.done","frame":%d,"tokens":3}' % k]


_TRANSLATED = _silence(0.2).encode()
_OLD_TURN: dict[str, Any] = {
    "unit": 1.0,
    "rate": 16_000,
    "answer": _turn(_OLD_SPEECH, _silence(0.2)),
    "accepted": (_text(**_OLD),),
}
_OLD_HELLO = (_created(input_audio_format="pcm16"),)

WIRES = {
    "realtime": Wire(
        1.0, 16_000, _frame_done, hello=(_created(),), accepted=(_text(type="session.updated", session={}),)
    ),
    "vllm-realtime": Wire(
        0.08,
        16_000,
        _always(_text(type="transcription.delta", delta="")),
        hello=(_text(type="session.created", id="sess-1", created=1764460800),),
        controls=2,
    ),
    "vllm-omni": Wire(
        1.0,
        16_000,
        _always(_text(type="response.listen", epoch=0, response={"status": "listening"})),
        accepted=(_created(id="duplex-1"),),
        smallest=800,
    ),
    "sglang-omni": Wire(
        0.08,
        16_000,
        _unit_done,
        hello=(_created(id="s", sglang={"granted": None}),),
        accepted=(_text(type="session.updated", session={}),),
        acknowledge=_accepted,
    ),
    "kyutai-stt": Wire(
        0.08,
        24_000,
        _always(msgspec.msgpack.encode({"type": "Step", "step_idx": 1, "prs": [0.5] * 4, "buffered_pcm": 0})),
        hello=(msgspec.msgpack.encode({"type": "Ready"}),),
        controls=0,
        binary=True,
    ),
    "moshi": Wire(
        0.08,
        24_000,
        lambda k: [_MOSHI if k else b"\x01" + _HEADERS + _MOSHI[1:]],
        hello=(b"\x00",),
        controls=0,
        smallest=20,
        binary=True,
    ),
    "openai": Wire(
        1.0,
        16_000,
        _turn(_SPEECH, _silence(0.2)),
        hello=(_created(type="realtime", audio={}),),
        accepted=(_text(type="session.updated", session={"type": "realtime"}),),
        smallest=800,
    ),
    "openai-beta": Wire(hello=_OLD_HELLO, smallest=800, **_OLD_TURN),
    "azure": Wire(hello=_OLD_HELLO, smallest=800, **_OLD_TURN),
    "qwen": Wire(hello=_OLD_HELLO, smallest=800, **_OLD_TURN),
    "unmute": Wire(
        1.0,
        16_000,
        _turn(_OLD_SPEECH, base64.b64encode(_pages([MUTE_FRAME] * 5)).decode()),
        accepted=(_text(**_OLD),),
        smallest=60,
    ),
    "openai-translation": Wire(
        1.0,
        16_000,
        _translated,
        hello=(_created(type="translation"),),
        accepted=(_text(**_OLD),),
    ),
    "minicpm-o": Wire(
        1.0,
        16_000,
        _listen,
        hello=(_text(type="session.queue_done"),),
        accepted=(_text(type="session.created", session_id="rt_1"),),
        smallest=0,
        step=50,
    ),
    "minicpm-o-demo": Wire(
        1.0,
        16_000,
        _always(_text(type="result", is_listen=True, text="", audio_data=None, kv_cache_length=68)),
        hello=(_text(type="queue_done"),),
        accepted=(_text(type="prepared", prompt_length=43),),
        smallest=0,
        step=50,
    ),
}
"""All that stream chunks; `sglang-sessions` sends a request a frame, and none in between."""
