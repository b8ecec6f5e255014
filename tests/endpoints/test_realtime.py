from __future__ import annotations

import base64
import json

import pytest

from metrobench.endpoints.base import NOT_UNDERSTOOD, Endpoint, Kind, Observation
from metrobench.endpoints.realtime import RealtimeEndpoint, session_info
from metrobench.endpoints.registry import make_endpoint
from metrobench.errors import UsageError
from metrobench.measure.facts import FrameFlag

URL = "ws://127.0.0.1:9/v1/realtime"


@pytest.fixture
def endpoint() -> Endpoint:
    return make_endpoint("realtime", URL, unit=1.0, first_ready=1.0, sample_rate=16_000)


def decode(endpoint: Endpoint, message: object) -> Observation:
    return endpoint.decode(json.dumps(message).encode())


def test_registry_knows_the_name_and_hints_at_it() -> None:
    with pytest.raises(UsageError, match="realtim") as raised:
        make_endpoint("realtim", URL, unit=1.0, first_ready=1.0, sample_rate=16_000)
    assert "realtime" in raised.value.hint


@pytest.mark.parametrize(
    "url", ["", "http://a/", "localhost:80", "ws://", "ws:///x", "ws://h:99999/", "ws://h:x/", "wss//h", "ws://[::1/"]
)
def test_address_must_be_a_websocket_address(url: str) -> None:
    with pytest.raises(UsageError, match="WebSocket address"):
        RealtimeEndpoint(url, unit=1.0, first_ready=1.0)


@pytest.mark.parametrize("url", ["ws://h/", "wss://h/p?q=1", "ws://[::1]:80/x"])
def test_good_addresses(url: str) -> None:
    assert RealtimeEndpoint(url, unit=1.0, first_ready=1.0).url() == url


def test_opening_declares_the_audio_format(endpoint: Endpoint) -> None:
    (message,) = endpoint.opening(3, 0)
    assert json.loads(message) == {
        "type": "session.update",
        "session": {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}},
    }


def test_opening_asks_for_filling(endpoint: Endpoint) -> None:
    assert json.loads(endpoint.opening(0, 1024)[0])["session"]["metrobench"] == {"fill_tokens": 1024}


def test_opening_names_the_session_s_own_budget(endpoint: Endpoint) -> None:
    endpoint.budgets = (1.0, 0.08)
    assert json.loads(endpoint.opening(1, 0)[0])["session"]["metrobench"] == {"budget_ms": 80.0}


def test_chunk_is_an_append_with_base64_audio(endpoint: Endpoint) -> None:
    pcm = bytes(range(256)) * 2
    message = json.loads(endpoint.encode_chunk(pcm))
    assert message["type"] == "input_audio_buffer.append"
    assert base64.b64decode(message["audio"]) == pcm


def test_closing_is_polite(endpoint: Endpoint) -> None:
    assert [json.loads(message)["type"] for message in endpoint.closing()] == ["session.close"]


def test_frame_done_carries_its_frame(endpoint: Endpoint) -> None:
    seen = decode(
        endpoint,
        {
            "type": "metrobench.frame.done",
            "event_id": "e",
            "frame": 7,
            "media_time": {"start_ms": 7000.0, "duration_ms": 1000.0},
            "tokens": 5,
            "speaking": True,
            "resident_tokens": 1040,
        },
    )
    assert seen.kind is Kind.FRAME_DONE
    assert (seen.frame, seen.tokens) == (7, 5)
    assert seen.flags == FrameFlag.CONTENT_DUE | FrameFlag.SPEAKING


def test_listening_frame_owes_content_too(endpoint: Endpoint) -> None:
    seen = decode(endpoint, {"type": "metrobench.frame.done", "frame": 0, "tokens": 1, "speaking": False})
    assert seen.flags == FrameFlag.CONTENT_DUE


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("session.created", Kind.OPENED),
        ("response.output_text.delta", Kind.OUTPUT),
        ("response.output_audio.delta", Kind.OUTPUT),
        ("response.output_audio_transcript.delta", Kind.OUTPUT),
        ("response.created", Kind.OTHER),
        ("response.done", Kind.OTHER),
        ("rate_limits.updated", Kind.OTHER),
        ("something.new", Kind.OTHER),
    ],
)
def test_kinds(endpoint: Endpoint, type_: str, kind: Kind) -> None:
    assert decode(endpoint, {"type": type_, "unknown": {"a": [1, 2]}}).kind is kind


def test_accepted_says_how_many_tokens_were_filled(endpoint: Endpoint) -> None:
    session = {"id": "s", "metrobench": {"unit_ms": 1000.0, "filled_tokens": 1024}}
    seen = decode(endpoint, {"type": "session.updated", "session": session})
    assert (seen.kind, seen.tokens) == (Kind.ACCEPTED, 1024)


def test_accepted_by_a_server_without_the_extension(endpoint: Endpoint) -> None:
    seen = decode(endpoint, {"type": "session.updated", "session": {"type": "realtime"}})
    assert (seen.kind, seen.tokens) == (Kind.ACCEPTED, 0)


@pytest.mark.parametrize("code", ["session_limit", "context_exhausted", "engine_dead"])
def test_errors_that_end_the_session(endpoint: Endpoint, code: str) -> None:
    seen = decode(endpoint, {"type": "error", "error": {"type": "x", "code": code, "message": "m", "param": None}})
    assert (seen.kind, seen.code, seen.message, seen.fatal) == (Kind.ERROR, code, "m", True)


def test_errors_that_do_not_end_the_session(endpoint: Endpoint) -> None:
    seen = decode(endpoint, {"type": "error", "error": {"code": "unknown_event", "message": "m"}})
    assert (seen.kind, seen.fatal) == (Kind.ERROR, False)


def test_error_as_a_bare_string(endpoint: Endpoint) -> None:
    seen = decode(endpoint, {"type": "error", "error": "bad audio", "code": "invalid_audio"})
    assert (seen.code, seen.message, seen.fatal) == ("invalid_audio", "bad audio", False)


def test_session_info() -> None:
    own = {"unit_ms": 500.0, "first_ready_ms": 500.0, "frame_class": "A", "kv": "window:64", "stand_in": True, "new": 1}
    info = session_info(json.dumps({"type": "session.created", "session": {"metrobench": own}}).encode())
    assert info is not None
    assert (info.unit_ms, info.kv, info.stand_in) == (500.0, "window:64", True)
    assert session_info(b'{"type":"session.created","session":{}}') is None
    assert session_info(b"no") is None


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"unit_ms": 1000.0, "first_ready_ms": 1000.0}, ""),
        ({}, ""),
        (None, ""),
        ({"unit_ms": 500.0}, "a frame is 500 ms of audio, not 1000 ms"),
        ({"unit_ms": 1000.0, "first_ready_ms": 1080.0}, "the first frame is 1080 ms of audio, not 1000 ms"),
    ],
)
def test_frames_of_another_length_are_noticed(endpoint: Endpoint, own: dict[str, float] | None, words: str) -> None:
    greeting = json.dumps({"type": "session.created", "session": {"metrobench": own}}).encode()
    assert words in endpoint.mismatch(greeting)
    assert bool(words) == bool(endpoint.mismatch(greeting))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'{"type":5}',
        b'{"type":"metrobench.frame.done"}',
        b'{"type":"metrobench.frame.done","frame":"7"}',
        b'{"type":"error","error":5}',
        b'{"type":"session.updated","session":7}',
    ],
)
def test_strange_messages_are_an_error_that_is_not_fatal(endpoint: Endpoint, payload: bytes) -> None:
    seen = endpoint.decode(payload)
    assert seen.kind in (Kind.ERROR, Kind.ACCEPTED)
    if seen.kind is Kind.ERROR:
        assert (seen.code, seen.fatal) == (NOT_UNDERSTOOD, False)


def test_nesting_without_end_is_an_error_that_is_not_fatal(endpoint: Endpoint) -> None:
    for start in (b'{"type":"x","y":', b'{"type":"session.updated","session":'):
        payload = start + b"[" * 1_000_000
        seen = endpoint.decode(payload)
        assert seen.kind in (Kind.ERROR, Kind.ACCEPTED) and not seen.fatal
        assert endpoint.mismatch(payload) == ""
