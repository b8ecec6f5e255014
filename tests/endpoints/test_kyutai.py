from __future__ import annotations

import msgspec
import numpy as np
import pytest

from metrobench.endpoints.base import NOT_UNDERSTOOD, Access, Kind, Observation
from metrobench.endpoints.kyutai import KyutaiEndpoint
from metrobench.endpoints.registry import fit, make_endpoint
from metrobench.errors import UsageError

URL = "ws://127.0.0.1:8080/api/asr-streaming"


def kyutai(url: str = URL, **access: object) -> KyutaiEndpoint:
    made = make_endpoint(
        "kyutai-stt",
        url,
        unit=0.08,
        first_ready=0.08,
        sample_rate=24_000,
        access=Access(**access),  # type: ignore[arg-type]
    )
    assert isinstance(made, KyutaiEndpoint)
    return made


def decode(message: object) -> Observation:
    return kyutai().decode(msgspec.msgpack.encode(message))


def test_frames_are_80_ms_each_answered_when_complete() -> None:
    stream = fit("kyutai-stt", 0.08, 24_000)
    assert (stream.unit, stream.first_ready, stream.sample_rate) == (0.08, 0.08, 24_000)


def test_a_model_with_other_frames_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="80 ms at 24 kHz"):
        fit("kyutai-stt", 1.0, 16_000)


def test_four_chunks_make_one_audio_message_of_32_bit_floats() -> None:
    pcm = np.arange(-960, 960).astype("<i2") * 17
    endpoint = kyutai()
    message = endpoint.group_head() + endpoint.encode_chunk(pcm.tobytes())
    assert endpoint.group == 4
    said = msgspec.msgpack.decode(message)
    assert said["type"] == "Audio"
    assert np.array_equal(np.array(said["pcm"]) * 32768, pcm)
    assert len(message) == len(endpoint.group_head()) + 5 * 1920
    assert message == endpoint.group_head() + b"".join(
        endpoint.encode_chunk(pcm[start : start + 480].tobytes()) for start in range(0, 1920, 480)
    )


def test_the_public_token_is_the_default() -> None:
    assert kyutai().headers() == {"kyutai-api-key": "public_token"}


def test_the_user_s_token_wins() -> None:
    assert kyutai(headers={"Kyutai-Api-Key": "mine"}).headers() == {"Kyutai-Api-Key": "mine"}
    assert kyutai(URL + "?auth_id=mine").headers() == {}


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"type": "Ready"}, Kind.ACCEPTED),
        ({"type": "Step", "step_idx": 91, "prs": [0.1, 0.2, 0.3, 0.4], "buffered_pcm": 480}, Kind.FRAME_DONE),
        ({"type": "Word", "text": "hello", "start_time": 1.0}, Kind.OTHER),
        ({"type": "EndWord", "stop_time": 1.0}, Kind.OTHER),
        ({"type": "Marker", "id": 1}, Kind.OTHER),
        ({"type": "Something", "new": {"a": [1]}}, Kind.OTHER),
        ({}, Kind.OTHER),
    ],
)
def test_kinds(message: object, kind: Kind) -> None:
    seen = decode(message)
    assert (seen.kind, seen.frame) == (kind, None)


def test_a_full_server_says_so() -> None:
    seen = decode({"type": "Error", "message": "no free channels"})
    assert (seen.kind, seen.message, seen.fatal) == (Kind.ERROR, "no free channels", True)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", b'{"type":"Step"}', b"\x81\xa4type\x05"])
def test_strange_messages_are_an_error_that_is_not_fatal(payload: bytes) -> None:
    seen = kyutai().decode(payload)
    assert (seen.kind, seen.code, seen.fatal) == (Kind.ERROR, NOT_UNDERSTOOD, False)


def test_nesting_without_end_is_an_error_that_is_not_fatal() -> None:
    seen = kyutai().decode(b"\x81\xa1x" + b"\x91" * 1_000_000)
    assert (seen.kind, seen.code) == (Kind.ERROR, NOT_UNDERSTOOD)
