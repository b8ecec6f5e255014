"""The sink of benchmarks/pacing.py speaks the protocols it measures: what it says is understood, what it counts is
audio."""

from __future__ import annotations

import pytest

from benchmarks.wires import WIRES
from metrobench.endpoints.base import Access, Endpoint, FrameClass, Kind
from metrobench.endpoints.registry import PROTOCOLS, fit, make_endpoint
from metrobench.load.finish import chunk_frame, finisher
from metrobench.units import CHUNK

ANSWERS = {FrameClass.TURN: {Kind.TURN_START, Kind.OUTPUT, Kind.TURN_DONE}}


def endpoint(name: str) -> Endpoint:
    stream = fit(name, WIRES[name].unit, WIRES[name].rate)
    return make_endpoint(
        name,
        "ws://h/",
        unit=stream.unit,
        first_ready=stream.first_ready,
        sample_rate=stream.sample_rate,
        access=Access(model="sink"),
    )


def frames_of(wire: bytes) -> list[tuple[int, bool]]:
    """Payload bytes of WebSocket frames, and whether each is the last of several."""
    found = []
    while wire:
        size, head = wire[1] & 127, 2
        if size == 126:
            size, head = int.from_bytes(wire[2:4], "big"), 4
        found.append((size, wire[0] == 0x80))
        wire = wire[head + 4 + size :]
    return found


def test_every_protocol_that_streams_chunks_has_a_wire() -> None:
    assert set(PROTOCOLS) - set(WIRES) == {"sglang-sessions"}


@pytest.mark.parametrize("name", WIRES)
def test_what_the_sink_says_opens_a_session_and_answers_its_frames(name: str) -> None:
    wire, made = WIRES[name], endpoint(name)
    decode = made.decoder()
    opening = [decode(message) for message in (*wire.hello, *wire.accepted)]
    assert {seen.kind for seen in opening} <= {Kind.OPENED, Kind.ACCEPTED}
    assert opening[-1].kind is Kind.ACCEPTED
    replies = [message for seen in opening for message in seen.reply]
    assert wire.controls == len(made.opening(0, 0)) + len(replies)
    said = [decode(message) for k in range(3) for message in wire.answer(k)]
    assert {seen.kind for seen in said} <= ANSWERS.get(made.frame_class, {Kind.FRAME_DONE})
    done = Kind.TURN_DONE if made.frame_class is FrameClass.TURN else Kind.FRAME_DONE
    assert sum(seen.kind is done for seen in said) == 3
    if wire.acknowledge is not None:
        assert decode(wire.acknowledge(7)).kind is Kind.OTHER


@pytest.mark.parametrize("name", WIRES)
def test_the_sink_counts_chunks_and_nothing_else(name: str) -> None:
    wire, made = WIRES[name], endpoint(name)
    finish = finisher(made)
    chunks = made.encode_clip([bytes(2 * round(made.sample_rate * CHUNK))] * 100)
    frames = [chunk_frame(message, made) for message in chunks]
    out = b"".join(frame if finish is None else finish(frame, number, 0) for number, frame in enumerate(frames))
    said = frames_of(out) + [(len(message), False) for message in made.closing()]
    counted = [size for size, last in said if size >= wire.smallest and (wire.step == 1 or last)]
    assert len(counted) * wire.step == 100
