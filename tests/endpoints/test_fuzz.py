"""Whatever a server sends, a decoder observes it: it never fails, and what it says is finite and bounded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrobench.endpoints import ogg
from metrobench.endpoints.base import Endpoint, Kind, Observation
from metrobench.endpoints.registry import PROTOCOLS, fit, make_endpoint, schemes

FEW, MANY = 200, 100_000
"""Examples for each protocol by `make test` and by `make test-thorough`."""
MOST_FRAMES = 10_000_000
LONGEST_TEXT = 300
LONG_RUN = 3600

NUMBERS = (0, 1, -1, 80.0, 0.1, 3, 2**63 - 1, -(2**63), 2**64 - 1, 10**30, 1e308, -1e308, 5e-324, math.inf, math.nan)
WORDS = (
    *("", "unit_3", "unit_" + "9" * 30, "failed", "fatal", "resource_exhausted", "session_limit", "completed"),
    *("AAAA", "T2dnUw==", "%%%", "x" * 1000, "\ud800", "\x00", "\u00e9"),
)
LEAVES = (None, True, False, *NUMBERS, *WORDS)
ERROR = {"type": WORDS, "code": WORDS, "message": WORDS, "metrobench": {"cap": NUMBERS, "x": WORDS}}
FIELDS: dict[str, Any] = {
    "error": ERROR,
    "code": WORDS,
    "message": WORDS,
    "delta": WORDS,
    "reason": WORDS,
    "response_id": WORDS,
    "unit_id": WORDS,
    "elapsed_ms": NUMBERS,
    "frame": NUMBERS,
    "tokens": NUMBERS,
    "server_event_seq": NUMBERS,
    "sample_rate_hz": NUMBERS,
    "metadata": {"audio_duration_ms": NUMBERS},
    "kind": ("listen", "text", "audio", *WORDS),
    "input_id": ("slice-3", "slice-" + "9" * 30, *WORDS, *NUMBERS),
    "audio": WORDS,
    "meta_info": {"completion_tokens": NUMBERS},
    "metrics": {"kv_cache_length": NUMBERS},
    "kv_cache_length": NUMBERS,
    "is_listen": (True, False),
    "audio_data": WORDS,
    "position": NUMBERS,
    "estimated_wait_s": NUMBERS,
    "sglang": {"unit_id": WORDS, "fatal": (True, False)},
    "response": {"status": WORDS, "status_details": {"reason": WORDS, "error": ERROR}},
    "session": {
        "metrobench": {"unit_ms": NUMBERS, "filled_tokens": NUMBERS, "can_fill": (True, False)},
        "capabilities": {"chunk_period_ms": NUMBERS},
        "sglang": {"granted": {"native_unit_ms": NUMBERS}},
    },
}
"""Fields that some protocol reads, and what may stand in each."""
_TYPES = """
error session.created session.updated session.closed session.expired session.finished
response.created response.listen response.done response.audio.delta response.output_audio.delta response.text.delta
transcription.delta transcription.done sglang.unit.done session.output_audio.delta metrobench.frame.done
Step Ready Error Word
response.output.delta session.queued session.queue_done result queued queue_done prepared stopped timeout
"""
TYPES = _TYPES.split()
ODD, WILD = 32, 8
"""One field in so many holds anything at all; one message in so many is just bytes."""


class Tape:
    """Choices read off bytes: hypothesis makes and shortens them faster than a tree of strategies."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def below(self, limit: int) -> int:
        """The next choice of so many."""
        self._place += 1
        return self._data[self._place - 1] % limit if self._place <= len(self._data) else 0

    def pick(self, choices: Sequence[Any]) -> Any:
        """One of them."""
        return choices[self.below(len(choices))]

    def take(self, most: int) -> bytes:
        """Up to so many bytes as they are."""
        start, self._place = self._place, self._place + self.below(most + 1) + 1
        return self._data[start + 1 : self._place]

    def anything(self, depth: int = 3) -> Any:
        """A value of any shape."""
        shape = self.below(6)
        if depth and shape == 4:
            return [self.anything(depth - 1) for _ in range(self.below(4))]
        if depth and shape == 5:
            return {self.pick(WORDS): self.anything(depth - 1) for _ in range(self.below(4))}
        return self.pick(LEAVES)

    def like(self, kind: Any) -> Any:
        """A value of a kind of FIELDS, mostly."""
        if not self.below(ODD):
            return self.anything()
        if isinstance(kind, dict):
            return {name: self.like(kind[name]) for name in kind if self.below(2)}
        return self.pick(kind)

    def event(self) -> dict[str, Any]:
        """An event with some fields."""
        names = {self.pick(tuple(FIELDS)) for _ in range(self.below(6))}
        kind = self.pick(TYPES) if self.below(ODD) else self.anything()
        return {"type": kind} | {name: self.like(FIELDS[name]) for name in sorted(names)}

    def pages(self) -> bytes:
        """Ogg pages."""
        return b"".join(ogg.page(self.take(60), 1, 0, 0) for _ in range(self.below(4)))


def as_msgpack(event: dict[str, Any]) -> bytes:
    """A map, or text where there is no such map."""
    try:
        return msgspec.msgpack.encode(event)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(event).encode()


def message(protocol: str, tape: Tape) -> bytes:
    """A good one, a damaged one, or any bytes."""
    if not tape.below(WILD):
        return tape.take(200)
    if protocol == "moshi":
        made = bytes((tape.below(9),)) + (tape.pages() if tape.below(2) else tape.take(60))
    elif protocol == "sglang-sessions":
        made = tape.pick((b"200 ", b"400 ", b"")) + (json.dumps(tape.event()).encode() if tape.below(4) else b"")
    else:
        made = as_msgpack(tape.event()) if protocol == "kyutai-stt" else json.dumps(tape.event()).encode()
    if tape.below(2):
        return made
    place = (tape.below(256) * 256 + tape.below(256)) % (len(made) + 1)
    return made[:place] + tape.take(20) + made[place + tape.below(40) :]


def endpoint(protocol: str) -> Endpoint:
    """With the frames that suit it."""
    own = {"moshi": (0.08, 24_000), "kyutai-stt": (0.08, 24_000), "vllm-realtime": (0.08, 16_000)}
    stream = fit(protocol, *own.get(protocol, (1.0, 16_000)))
    return make_endpoint(
        protocol,
        f"{schemes(protocol)[0]}://h/",
        unit=stream.unit,
        first_ready=stream.first_ready,
        sample_rate=stream.sample_rate,
    )


def sane(seen: Observation) -> None:
    """Nothing in it can harm what reads it."""
    assert isinstance(seen.kind, Kind)
    assert 0 <= seen.count <= MOST_FRAMES
    assert math.isfinite(seen.audio) and seen.audio >= 0.0
    assert len(seen.code) <= LONGEST_TEXT and len(seen.message) <= LONGEST_TEXT
    assert all(isinstance(reply, bytes) for reply in seen.reply)
    for value in (seen.signals or {}).values():
        assert not isinstance(value, float) or math.isfinite(value)


def observes(protocol: str) -> Callable[[bytes], None]:
    """One session of a protocol that hears a few messages."""
    made = endpoint(protocol)

    def hear(data: bytes) -> None:
        tape, decode = Tape(data), made.decoder()
        for _ in range(tape.below(4) + 1):
            heard = message(protocol, tape)
            sane(decode(heard))
            made.can_fill(heard)
            assert "nan" not in made.mismatch(heard)

    return hear


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "examples", [FEW, pytest.param(MANY, marks=[pytest.mark.thorough, pytest.mark.timeout(LONG_RUN)])]
)
def test_any_messages_in_any_order_are_observed(protocol: str, examples: int) -> None:
    asked = settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    asked(given(st.binary(max_size=400))(observes(protocol)))()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("giant", [b"[" * 1_000_000, b'{"a":' * 1_000_000, b"\x91" * 1_000_000, b"\x01OggS" * 200_000])
def test_a_giant_message_is_one_more_that_is_not_understood(protocol: str, giant: bytes) -> None:
    sane(endpoint(protocol).decoder()(giant))
