from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from metrobench.endpoints import ogg, opus
from metrobench.endpoints.base import NOT_UNDERSTOOD, FrameClass, Kind, Observation
from metrobench.endpoints.moshi import MAX_AUDIO, MoshiEndpoint
from metrobench.endpoints.registry import fit, make_endpoint
from metrobench.errors import UsageError
from metrobench.measure.facts import FrameFlag

URL = "ws://127.0.0.1:8998/api/chat"
FRAME_20 = bytes([13 << 3])
FRAME_40 = bytes([13 << 3 | 1])


def moshi() -> MoshiEndpoint:
    made = make_endpoint("moshi", URL, unit=0.08, first_ready=0.16, sample_rate=24_000)
    assert isinstance(made, MoshiEndpoint)
    return made


def audio(*packets: bytes) -> bytes:
    return b"\x01" + b"".join(ogg.page(packet, 1, 0, 0) for packet in packets)


def observed(*messages: bytes) -> list[Observation]:
    decode = moshi().decoder()
    return [decode(message) for message in messages]


def test_frames_are_80_ms_and_the_first_answer_needs_two() -> None:
    stream = fit("moshi", 0.08, 24_000)
    assert (stream.frame_class, stream.unit, stream.first_ready) == (FrameClass.LOCKSTEP, 0.08, 0.16)


@pytest.mark.parametrize(("unit", "rate"), [(1.0, 24_000), (0.08, 16_000)])
def test_a_model_with_other_frames_is_wrong_usage(unit: float, rate: int) -> None:
    with pytest.raises(UsageError, match="80 ms at 24 kHz") as raised:
        fit("moshi", unit, rate)
    assert "--model moshi" in raised.value.hint


def test_sessions_share_the_clips_and_each_gets_a_valid_stream_of_its_own() -> None:
    endpoint = moshi()
    pcm = (6000 * np.sin(np.arange(12 * 480) / 11)).astype("<i2")
    shared = endpoint.encode_clip([row.tobytes() for row in pcm.reshape(-1, 480)])
    order = [*range(3, 12), *range(12), *range(5, 9)]
    messages = [endpoint.personalise(shared[chunk], number) for number, chunk in enumerate(order)]
    assert all(message[0] == 1 for message in messages)
    stream = b"".join(message[1:] for message in messages)
    heard, rate = soundfile.read(io.BytesIO(stream))
    assert len(heard) == len(order) * round(0.02 * rate)
    assert np.abs(heard).max() > 0.1


def test_first_byte_is_the_acceptance() -> None:
    assert observed(b"\x00")[0].kind is Kind.ACCEPTED
    assert observed(bytes(9))[0].kind is Kind.ACCEPTED


def test_each_80_ms_of_audio_is_the_answer_to_a_frame() -> None:
    head = opus.head(24_000), opus.tags()
    first, second = observed(audio(*head, FRAME_40, FRAME_40), audio(FRAME_40, FRAME_40))
    assert (first.kind, first.frame, first.count, first.tokens) == (Kind.FRAME_DONE, 0, 1, 1)
    assert first.flags == FrameFlag.CONTENT_DUE
    assert (second.frame, second.count) == (1, 1)


def test_audio_may_be_spread_over_messages_or_bundled() -> None:
    seen = observed(audio(FRAME_40), audio(FRAME_40), audio(*[FRAME_20] * 4), audio(*[FRAME_40] * 6))
    assert [(item.kind, item.frame, item.count) for item in seen] == [
        (Kind.OUTPUT, None, 1),
        (Kind.FRAME_DONE, 0, 1),
        (Kind.FRAME_DONE, 1, 1),
        (Kind.FRAME_DONE, 2, 3),
    ]


def test_sums_of_20_ms_never_lose_a_frame() -> None:
    seen = observed(*[audio(FRAME_20)] * 4000)
    assert sum(item.kind is Kind.FRAME_DONE for item in seen) == 1000


def test_headers_alone_answer_nothing() -> None:
    assert observed(b"\x01" + ogg.page(opus.head(24_000), 1, 0, 0))[0].kind is Kind.OTHER
    assert observed(b"\x01")[0].kind is Kind.OTHER


def test_the_rust_servers_answer_one_frame_later() -> None:
    seen = observed(bytes(9), b"\x01" + ogg.page(opus.head(24_000), 1, 0, 0), audio(FRAME_40), audio(FRAME_40))
    assert (seen[3].kind, seen[3].frame, seen[3].count) == (Kind.FRAME_DONE, 1, 1)


@pytest.mark.parametrize("payload", [b"", b"\x02 text", b"\x03\x00", b"\x04{}", b"\x06", b"\x09xyz"])
def test_other_kinds_have_no_weight(payload: bytes) -> None:
    assert observed(payload)[0].kind is Kind.OTHER


def test_an_error_ends_the_session_in_the_server_s_words() -> None:
    (seen,) = observed(b"\x05out of memory \xff")
    assert (seen.kind, seen.fatal) == (Kind.ERROR, True)
    assert seen.message.startswith("out of memory")


@pytest.mark.parametrize("payload", [b"\x01garbage", audio(FRAME_40)[:-1], b"\x01" + bytes(MAX_AUDIO)])
def test_audio_that_is_none_is_an_error_that_is_not_fatal(payload: bytes) -> None:
    (seen,) = observed(payload)
    assert (seen.kind, seen.code, seen.fatal) == (Kind.ERROR, NOT_UNDERSTOOD, False)


def test_one_message_cannot_answer_for_ever() -> None:
    page = b"OggS" + bytes(22) + b"\xff" + bytes([1]) * 255 + bytes([3 << 3 | 1]) * 255
    (seen,) = observed(b"\x01" + page * 400)
    assert (seen.kind, seen.code) == (Kind.ERROR, NOT_UNDERSTOOD)


kinds = st.integers(0, 10).map(lambda kind: bytes([kind]))
pages = st.lists(st.binary(max_size=60), max_size=6).map(lambda packets: audio(*packets)[1:])


@given(st.lists(st.builds(lambda kind, rest: kind + rest, kinds, st.binary(max_size=200) | pages), max_size=8))
def test_any_messages_in_any_order_are_observed(messages: list[bytes]) -> None:
    answered = 0
    for seen in observed(*messages):
        if seen.kind is Kind.FRAME_DONE:
            assert seen.frame is not None
            assert seen.frame >= answered and 1 <= seen.count <= 1000
            answered = seen.frame + seen.count


@given(st.binary(max_size=300), st.integers(0, 10**7))
def test_personal_messages_hold_the_shared_packet(packet: bytes, number: int) -> None:
    made = moshi().personalise(audio(packet), number)
    assert list(ogg.packets(made[1:]))[-1] == packet
    assert len(list(ogg.packets(made[1:]))) == (1 if number else 3)
