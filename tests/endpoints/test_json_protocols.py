"""What each JSON protocol sends and understands."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from metrobench.endpoints.base import NOT_UNDERSTOOD, Access, Endpoint, FrameClass, Kind, Observation
from metrobench.endpoints.registry import PROTOCOLS, fit, make_endpoint
from metrobench.errors import UsageError

JSON = tuple(name for name in PROTOCOLS if name not in ("moshi", "kyutai-stt", "sglang-sessions"))
TURNS = ("openai", "openai-beta", "azure", "qwen", "unmute")
URL = "ws://127.0.0.1:9/v1/realtime"


def endpoint(name: str, unit: float | None = None, **access: Any) -> Endpoint:
    frame = 0.08 if name == "vllm-realtime" else 1.0
    stream = fit(name, frame if unit is None else unit, 16_000)
    return make_endpoint(
        name,
        URL,
        unit=stream.unit,
        first_ready=stream.first_ready,
        sample_rate=stream.sample_rate,
        access=Access(**access),
    )


def see(name: str, *messages: Any, **access: Any) -> list[Observation]:
    decode = endpoint(name, **access).decoder()
    return [decode(json.dumps(message).encode()) for message in messages]


def sent(name: str, **access: Any) -> list[dict[str, Any]]:
    return [json.loads(message) for message in endpoint(name, **access).opening(3, 0)]


def chunk(name: str, pcm: bytes, number: int = 0) -> dict[str, Any]:
    made = endpoint(name)
    message: dict[str, Any] = json.loads(made.encode_chunk(pcm) + (made.tail(number) if made.numbered else b""))
    return message


@pytest.mark.parametrize("name", [name for name in JSON if name != "unmute" and not name.startswith("minicpm-o")])
def test_a_chunk_is_the_audio_in_base64(name: str) -> None:
    message = chunk(name, b"\x01\x02" * 320, 5)
    assert message["type"].endswith("input_audio_buffer.append")
    assert base64.b64decode(message["audio"]) == b"\x01\x02" * 320


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("vllm-realtime", 0.08, (FrameClass.LOCKSTEP, 0.08, 0.5625, 16_000)),
        ("vllm-realtime", 2.0, (FrameClass.SEGMENT, 5.0, 5.0, 16_000)),
        ("vllm-omni", 1.0, (FrameClass.UNIT_LOSSY, 1.0, 1.0, 16_000)),
        ("sglang-omni", 0.08, (FrameClass.LOCKSTEP, 0.08, 0.08, 16_000)),
        ("openai", 1.0, (FrameClass.TURN, 12.0, 12.0, 24_000)),
        ("qwen", 1.0, (FrameClass.TURN, 12.0, 12.0, 16_000)),
        ("openai-translation", 1.0, (FrameClass.UNIT_LOSSY, 0.2, 0.2, 24_000)),
    ],
)
def test_each_protocol_cuts_audio_its_own_way(name: str, unit: float, expected: tuple[Any, ...]) -> None:
    stream = fit(name, unit, 48_000)
    assert (stream.frame_class, stream.unit, stream.first_ready, stream.sample_rate) == expected


def test_vllm_has_no_frames_of_half_a_second() -> None:
    with pytest.raises(UsageError, match="80 ms"):
        fit("vllm-realtime", 0.5, 16_000)


@pytest.mark.parametrize("name", ["vllm-omni", "sglang-omni", "openai-translation", *TURNS])
def test_the_model_stands_in_the_address_unless_it_is_there(name: str) -> None:
    assert "model=a%2Fb" in endpoint(name, model="a/b").url()
    assert "model" not in endpoint(name).url()
    made = make_endpoint(
        name, URL + "?model=x", unit=1.0, first_ready=1.0, sample_rate=16_000, access=Access(model="y")
    )
    assert "model=x" in made.url() and "model=y" not in made.url()


def test_vllm_is_told_the_model_and_started_once() -> None:
    assert sent("vllm-realtime", model="m") == [
        {"type": "session.update", "model": "m"},
        {"type": "input_audio_buffer.commit"},
    ]
    assert [json.loads(each) for each in endpoint("vllm-realtime").closing()] == [
        {"type": "input_audio_buffer.commit", "final": True}
    ]


def test_vllm_answers_each_frame_with_a_delta_empty_or_not() -> None:
    silent, word, created = see(
        "vllm-realtime",
        {"type": "transcription.delta", "delta": ""},
        {"type": "transcription.delta", "delta": " hi", "extra": 1},
        {"type": "session.created", "id": "sess-1", "created": 1},
    )
    assert (silent.kind, silent.tokens) == (Kind.FRAME_DONE, 0)
    assert (word.kind, word.tokens) == (Kind.FRAME_DONE, 1)
    assert created.kind is Kind.ACCEPTED


def test_vllm_s_deltas_of_a_segment_are_output() -> None:
    decode = endpoint("vllm-realtime", unit=2.0).decode
    assert decode(b'{"type":"transcription.delta","delta":"word"}').kind is Kind.OUTPUT


def test_vllm_s_errors_are_strings() -> None:
    gone, odd, done = see(
        "vllm-realtime",
        {"type": "error", "error": "no such model", "code": "model_not_found"},
        {"type": "error", "error": "bad base64", "code": "invalid_audio"},
        {"type": "transcription.done", "text": "", "usage": {}},
    )
    assert (gone.code, gone.message, gone.fatal) == ("model_not_found", "no such model", True)
    assert (odd.kind, odd.fatal) == (Kind.ERROR, False)
    assert done.kind is Kind.CLOSED and "context" in done.message


def test_omni_opens_a_session_that_answers_by_itself() -> None:
    (update,) = sent("vllm-omni", model="m", session={"ref_audio": "data:", "extra_body": {"seed": 1}})
    session = update["session"]
    assert session["extra_body"] == {"auto_response": True, "force_listen_count": 0, "seed": 1}
    assert (session["model"], session["ref_audio"], session["turn_detection"]) == ("m", "data:", None)
    assert "autostart=0" in endpoint("vllm-omni").url() and "duplex=1" in endpoint("vllm-omni").url()


def test_omni_listens_a_unit_at_a_time() -> None:
    listen, inside = see(
        "vllm-omni", {"type": "response.listen", "epoch": 0}, {"type": "response.listen", "response_id": "r"}
    )
    assert (listen.kind, listen.count) == (Kind.FRAME_DONE, 1)
    assert inside.kind is Kind.OTHER


def test_omni_s_speech_answers_as_many_units_as_it_is_long() -> None:
    def speech(ms: float) -> dict[str, Any]:
        return {"type": "response.output_audio.delta", "delta": "", "metadata": {"audio_duration_ms": ms}}

    start, half, rest, long = see("vllm-omni", {"type": "response.created"}, speech(600), speech(500), speech(2000))
    assert start.kind is Kind.TURN_START
    assert (half.kind, half.audio) == (Kind.OUTPUT, 0.6)
    assert (rest.kind, rest.count) == (Kind.FRAME_DONE, 1)
    assert (long.kind, long.count) == (Kind.FRAME_DONE, 2)


def test_omni_is_acknowledged_now_and_then() -> None:
    decode = endpoint("vllm-omni").decoder()
    replies = [
        decode(json.dumps({"type": "response.listen", "server_event_seq": number}).encode()).reply
        for number in range(1, 130)
    ]
    assert [json.loads(reply[0])["server_event_seq"] for reply in replies if reply] == [64, 128]


def test_omni_without_room_is_final() -> None:
    body = {"type": "rate_limit_error", "code": "resource_exhausted", "message": "limit=4"}
    (seen,) = see("vllm-omni", {"type": "error", "error": body})
    assert (seen.kind, seen.fatal, seen.code) == (Kind.ERROR, True, "resource_exhausted")


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("vllm-omni", {"capabilities": {"chunk_period_ms": 80}}),
        ("sglang-omni", {"sglang": {"granted": {"native_unit_ms": 80}}}),
    ],
)
def test_other_frames_than_the_model_s_are_found_out(name: str, session: dict[str, Any]) -> None:
    said = json.dumps({"type": "session.updated", "session": session}).encode()
    assert "80 ms of audio, not 1000 ms" in endpoint(name, unit=1.0).mismatch(said)
    assert not endpoint(name, unit=0.08).mismatch(said)
    for silent in (b"", b"[]", b'{"session":{}}', b'{"session":{"sglang":{"granted":null},"capabilities":null}}'):
        assert not endpoint(name, unit=1.0).mismatch(silent)


def test_sglang_numbers_its_audio_and_names_its_units() -> None:
    assert chunk("sglang-omni", b"ab", 7)["sglang"] == {"seq": 7}
    assert chunk("sglang-omni", b"ab", 7)["event_id"]
    done, early, strange = see(
        "sglang-omni",
        {"type": "sglang.unit.done", "sglang": {"unit_id": "unit_12", "media_time": {"t_start_ms": 960.0}}},
        {"type": "response.output_text.delta", "sglang": {"unit_id": "unit_12", "chunk_seq": 0}},
        {"type": "sglang.unit.done", "unit_id": "unit_x"},
    )
    assert (done.kind, done.frame) == (Kind.FRAME_DONE, 12)
    assert (early.kind, early.frame) == (Kind.OUTPUT, 12)
    assert strange.kind is Kind.OTHER


@pytest.mark.parametrize("space", ["", " "])
def test_the_acknowledgement_of_every_chunk_counts_for_nothing(space: str) -> None:
    said = '{"type":S"sglang.input_audio.accepted","seq":S3,"accepted_end_ms":S80.0}'.replace("S", space)
    assert endpoint("sglang-omni").decode(said.encode()).kind is Kind.OTHER


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("response.created", Kind.TURN_START),
        ("response.done", Kind.TURN_DONE),
        ("response.text.delta", Kind.OUTPUT),
        ("response.output_text.delta", Kind.OUTPUT),
        ("session.created", Kind.OPENED),
        ("session.updated", Kind.ACCEPTED),
        ("input_audio_buffer.speech_stopped", Kind.OTHER),
        ("rate_limits.updated", Kind.OTHER),
    ],
)
def test_names_of_both_generations_are_understood(name: str, kind: str, expected: Kind) -> None:
    assert see(name, {"type": kind})[0].kind is expected


@pytest.mark.parametrize("name", ["response.audio.delta", "response.output_audio.delta"])
def test_speech_is_as_long_as_its_samples(name: str) -> None:
    sound = base64.b64encode(bytes(24_000)).decode()
    (seen,) = see("openai", {"type": name, "delta": sound})
    assert (seen.kind, seen.audio) == (Kind.OUTPUT, 0.5)


def test_an_answer_that_failed_is_an_error() -> None:
    failed = {"status": "failed", "status_details": {"error": {"code": "server_overloaded", "message": "busy"}}}
    (seen,) = see("openai", {"type": "response.done", "response": failed})
    assert (seen.kind, seen.code, seen.message) == (Kind.ERROR, "server_overloaded", "busy")


@pytest.mark.parametrize(("name", "flat"), [("openai", False), ("openai-beta", True), ("azure", True), ("qwen", True)])
def test_each_generation_has_its_shape_of_session(name: str, flat: bool) -> None:
    (update,) = sent(name, session={"instructions": "Be brief."})
    session = update["session"]
    assert session["instructions"] == "Be brief."
    assert ("input_audio_format" in session) is flat
    vad = session["turn_detection"] if flat else session["audio"]["input"]["turn_detection"]
    assert vad["type"] == "server_vad"


def test_unmute_gets_opus_pages_in_order_and_headers_first() -> None:
    made = endpoint("unmute")
    messages = made.encode_clip([bytes(960)] * 3)
    first, second = (json.loads(made.personalise(messages[number], number)) for number in range(2))
    assert base64.b64decode(first["audio"])[:4] == b"OggS" and base64.b64decode(first["audio"])[5] & 2
    assert base64.b64decode(first["audio"]).count(b"OggS") == 3
    assert base64.b64decode(second["audio"]).count(b"OggS") == 1
    assert made.subprotocols == ("realtime",)


def test_tokens_go_where_a_dialect_wants_them() -> None:
    assert endpoint("azure", token="t0ken").headers() == {"api-key": "t0ken"}
    assert endpoint("openai-beta", token="t0ken").headers() == {
        "OpenAI-Beta": "realtime=v1",
        "Authorization": "Bearer t0ken",
    }


def test_translation_answers_every_frame_up_to_its_media_time() -> None:
    one, three, again, silent = see(
        "openai-translation",
        {"type": "session.output_audio.delta", "delta": "", "elapsed_ms": 200},
        {"type": "session.output_transcript.delta", "delta": "x", "elapsed_ms": 800},
        {"type": "session.output_audio.delta", "delta": "", "elapsed_ms": 800},
        {"type": "session.output_audio.delta", "delta": ""},
    )
    assert (one.frame, one.count) == (0, 1)
    assert (three.frame, three.count) == (1, 3)
    assert again.kind is Kind.OTHER and silent.kind is Kind.OUTPUT


@pytest.mark.parametrize("elapsed", [-5, 1e300, 1e18, 0])
def test_media_times_that_cannot_be_answer_nothing(elapsed: float) -> None:
    (seen,) = see("openai-translation", {"type": "session.output_audio.delta", "elapsed_ms": elapsed})
    assert seen.kind in (Kind.OUTPUT, Kind.OTHER)


STRANGE = [
    b"",
    b"\x00",
    b"{",
    b"[]",
    b"null",
    b"3",
    b'"text"',
    b'{"type":7}',
    b'{"type":null}',
    b'{"type":"error","error":[1,2]}',
    b'{"type":"error"}',
    b'{"type":"session.closed","reason":{}}',
    b'{"type":"\xff\xfe"}',
    b'{"type":"response.output_audio.delta","delta":5}',
    b'{"type":"response.output_audio.delta","delta":"%%%"}',
    b'{"type":"response.done","response":[]}',
    b'{"type":"session.output_audio.delta","elapsed_ms":"soon"}',
    b'{"type":"sglang.unit.done","sglang":{"unit_id":-1}}',
    b'{"type":"sglang.unit.done","unit_id":"unit_' + b"9" * 5000 + b'"}',
    b"[" * 1_000_000,
    b'{"a":' * 1_000_000,
    b'{"type":"error","error":"' + b"x" * 1_000_000 + b'"}',
]


@pytest.mark.parametrize("name", JSON)
def test_strange_messages_end_no_session(name: str) -> None:
    for payload in STRANGE:
        decode = endpoint(name).decoder()
        seen = decode(payload)
        assert seen.code == NOT_UNDERSTOOD or not seen.fatal
        assert len(seen.message) <= 300
