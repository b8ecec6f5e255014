"""SGLang's streaming sessions: the requests, and what responses mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metrobench.endpoints.base import Access, Kind, Observation
from metrobench.endpoints.registry import fit, make_endpoint
from metrobench.endpoints.sglang_sessions import SglangSessionsEndpoint
from metrobench.errors import UsageError

URL = "http://h:30000"


def endpoint(url: str = URL, unit: float = 0.2, **access: Any) -> SglangSessionsEndpoint:
    made = make_endpoint(
        "sglang-sessions", url, unit=unit, first_ready=unit, sample_rate=16_000, access=Access(**access)
    )
    assert isinstance(made, SglangSessionsEndpoint)
    return made


def read(request: bytes) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Path, fields and body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert int(fields["Content-Length"]) == len(body)
    return first.split()[1], fields, json.loads(body)


def see(*payloads: bytes) -> list[Observation]:
    decode = endpoint().decoder()
    return [decode(payload) for payload in payloads]


def test_a_session_is_opened_used_and_closed_by_one_name() -> None:
    made = endpoint()
    path, fields, body = read(made.opening(7, 0)[0])
    name = body["session_id"]
    assert (path, fields["Host"], body["streaming"]) == ("/open_session", "h:30000", True)
    path, _, body = read(made.request(9, 7))
    assert (path, body["session_params"], body["stream"]) == ("/generate", {"id": name}, False)
    path, _, body = read(made.farewell(7)[0])
    assert (path, body) == ("/close_session", {"session_id": name})
    assert read(made.opening(8, 0)[0])[2]["session_id"] != name
    assert read(endpoint().opening(7, 0)[0])[2]["session_id"] != name


@pytest.mark.parametrize(("unit", "chunks"), [(0.2, 10), (0.05, None), (1.0, 50)])
def test_a_frame_is_asked_for_with_its_last_chunk(unit: float, chunks: int | None) -> None:
    made = endpoint(unit=unit)
    asked = [number for number in range(200) if made.request(number, 0)]
    assert len(asked) == int(200 * 0.02 / unit + 1e-6)
    if chunks is not None:
        assert asked == list(range(chunks - 1, 200, chunks))


def test_sessions_begin_with_different_tokens_and_frames_differ() -> None:
    made = endpoint()
    bodies = [read(made.request(number, session))[2]["input_ids"] for session in range(3) for number in (9, 19)]
    assert len({tuple(ids) for ids in bodies[::2]}) == 3
    assert bodies[0] != bodies[1]
    assert all(len(ids) == 10 and min(ids) >= 100 and max(ids) <= 999 for ids in bodies)


def test_settings_say_how_many_tokens_a_frame_has_and_how_they_are_sampled() -> None:
    made = endpoint(session={"frame_tokens": 3, "sampling_params": {"max_new_tokens": 5}, "return_logprob": True})
    body = read(made.request(9, 0))[2]
    assert len(body["input_ids"]) == 3 and body["return_logprob"] is True
    assert body["sampling_params"] == {"max_new_tokens": 5, "temperature": 0, "ignore_eos": True}
    assert "frame_tokens" not in body


@pytest.mark.parametrize("tokens", [0, -1, 10**9, "many", None, 1.5])
def test_a_number_of_tokens_that_cannot_be_is_wrong_usage(tokens: object) -> None:
    with pytest.raises(UsageError, match="frame_tokens"):
        endpoint(session={"frame_tokens": tokens})


def test_the_address_may_have_a_path_and_wants_http() -> None:
    assert read(endpoint("https://user@h/base/").opening(0, 0)[0])[0] == "/base/open_session"
    assert read(endpoint("https://user@h/base/").opening(0, 0)[0])[1]["Host"] == "h"
    with pytest.raises(UsageError, match="not an HTTP address"):
        endpoint("ws://h:30000")


def test_a_token_goes_with_every_request() -> None:
    made = endpoint(token="s3cret")
    for request in (made.opening(0, 0)[0], made.request(9, 0), made.farewell(0)[0]):
        assert read(request)[1]["Authorization"] == "Bearer s3cret"


def test_responses_are_counted_and_a_failed_one_is_its_frame_s() -> None:
    answer = b'200 {"text":"a","meta_info":{"completion_tokens":1,"prompt_tokens":11}}'
    opened, first, failed, third, closed = see(
        b'200 "name"',
        answer,
        b'400 {"error":{"message":"Streaming session already has an active request."}}',
        answer,
        b"200 ",
    )
    assert opened.kind is Kind.ACCEPTED
    assert (first.kind, first.frame, first.tokens) == (Kind.FRAME_DONE, 0, 1)
    assert (failed.kind, failed.fatal, failed.code) == (Kind.ERROR, False, "HTTP 400")
    assert "already has an active request" in failed.message
    assert third.frame == 2
    assert closed.kind is Kind.CLOSED


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b'400 {"error":{"message":"streaming sessions are disabled"}}', "disabled"),
        (b"404 Not Found", "Not Found"),
        (b"503 ", ""),
    ],
)
def test_a_session_that_cannot_be_opened_is_over(payload: bytes, words: str) -> None:
    (seen,) = see(payload)
    assert (seen.kind, seen.fatal) == (Kind.ERROR, True)
    assert words in seen.message


def test_frames_are_as_long_as_the_model_s() -> None:
    stream = fit("sglang-sessions", 0.2, 16_000)
    assert (stream.unit, stream.first_ready, stream.frame_class.value) == (0.2, 0.2, "A")
