"""MiniCPM-o's two protocols: floats in base64 that all sessions share, the queue, and what a slice's messages mean."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.endpoints.base import Access, Endpoint, FrameClass, Kind, Observation
from metrobench.endpoints.registry import fit, make_endpoint
from metrobench.errors import UsageError
from metrobench.load.finish import chunk_frame, finisher
from tests.load.test_finish import messages

V1, DEMO = "minicpm-o", "minicpm-o-demo"
URL = "ws://127.0.0.1:9/v1/realtime"
SAMPLES = 320
BFLOAT16 = 2.0**-8


def endpoint(name: str, url: str = URL, unit: float = 1.0, rate: int = 16_000, **access: Any) -> Endpoint:
    return make_endpoint(name, url, unit=unit, first_ready=unit, sample_rate=rate, access=Access(**access))


def sent(made: Endpoint, chunks: list[bytes]) -> list[dict[str, Any]]:
    finish = finisher(made)
    assert finish is not None
    wire = b"".join(finish(chunk_frame(made.encode_chunk(pcm), made), number, 0) for number, pcm in enumerate(chunks))
    return [json.loads(payload) for _, payload in messages(wire)]


def speech(message: dict[str, Any]) -> np.ndarray:
    audio = message["input"]["audio"] if "input" in message else message["audio_base64"]
    return np.frombuffer(base64.b64decode(audio, validate=True), dtype="<f4")


def see(name: str, *said: dict[str, Any], **access: Any) -> list[Observation]:
    decode = endpoint(name, **access).decoder()
    return [decode(json.dumps(message).encode()) for message in said]


def delta(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "response.output.delta", "kind": kind} | more


@pytest.mark.parametrize("name", [V1, DEMO])
@given(group=st.integers(2, 12), rate=st.sampled_from([8_000, 16_000, 24_000]), seed=st.integers(0, 2**32 - 1))
def test_chunks_that_are_encoded_alone_make_whole_slices_of_the_same_audio(
    name: str, group: int, rate: int, seed: int
) -> None:
    made = endpoint(name, unit=group * 0.02, rate=rate)
    samples = np.random.default_rng(seed).integers(-32768, 32768, (2 * group, rate // 50)).astype("<i2")
    heard = np.stack([speech(message) for message in sent(made, [row.tobytes() for row in samples])])
    exact = samples.astype(np.float32).reshape(2, -1) / 32768
    assert heard.shape == exact.shape
    changed = np.flatnonzero((heard != exact).any(axis=0))
    assert set(changed) <= set(range(0, exact.shape[1], rate // 50))
    assert (np.abs(heard - exact) <= BFLOAT16 * np.abs(exact)).all()


def test_of_a_slice_at_16_khz_one_sample_in_960_may_be_rounded() -> None:
    samples = np.full((50, SAMPLES), 12_345, "<i2")
    (message,) = sent(endpoint(V1), [row.tobytes() for row in samples])
    wrong = np.flatnonzero(speech(message) != np.float32(12_345 / 32768))
    assert wrong.tolist() == [chunk * SAMPLES for chunk in range(2, 50, 3)]


def test_slices_of_v1_carry_their_names() -> None:
    first, second = sent(endpoint(V1), [bytes(2 * SAMPLES)] * 100)
    assert (first["type"], set(first["input"])) == ("input.append", {"audio", "input_id"})
    assert first["input"]["input_id"] == "slice-0" and second["input"]["input_id"] == "slice-1"


def test_chunks_of_the_demo_have_the_name_that_its_code_reads() -> None:
    (message,) = sent(endpoint(DEMO), [bytes(2 * SAMPLES)] * 50)
    assert set(message) == {"type", "audio_base64"} and message["type"] == "audio_chunk"


@pytest.mark.parametrize(("name", "prefix", "kind"), [(V1, "session.", "session.init"), (DEMO, "", "prepare")])
def test_nothing_is_sent_before_the_server_has_a_place(name: str, prefix: str, kind: str) -> None:
    assert endpoint(name).opening(0, 0) == []
    wait, again, turn = see(
        name,
        {"type": f"{prefix}queued", "position": 3, "estimated_wait_s": 45.2, "queue_length": 3},
        {"type": f"{prefix}queue_update"},
        {"type": f"{prefix}queue_done"},
    )
    assert (wait.kind, wait.message, wait.reply) == (Kind.QUEUED, "place 3 in a queue, about 45 s", ())
    assert (again.kind, again.message) == (Kind.QUEUED, "in a queue")
    (said,) = (json.loads(message) for message in turn.reply)
    assert (turn.kind, said["type"]) == (Kind.OPENED, kind)


@pytest.mark.parametrize("place", [{"estimated_wait_s": 1e308}, {"position": 2**63 - 1, "estimated_wait_s": -1e300}])
def test_a_queue_without_end_is_a_short_message(place: dict[str, Any]) -> None:
    (seen,) = see(V1, {"type": "session.queued"} | place)
    assert seen.kind is Kind.QUEUED and len(seen.message) <= 300


def test_what_the_user_says_of_the_session_is_merged_into_it() -> None:
    given_v1 = {"voice": {"ref_audio_base64": "AAAA"}, "config": {"length_penalty": 1.1}}
    (init,) = see(V1, {"type": "session.queue_done"}, session=given_v1)[0].reply
    assert json.loads(init)["payload"] == {"system_prompt": "You are a helpful assistant."} | given_v1
    (prepare,) = see(DEMO, {"type": "queue_done"}, session={"config": {"top_k": 20}})[0].reply
    assert json.loads(prepare)["config"] == {
        "generate_audio": True,
        "chunk_ms": 1000,
        "sample_rate": 16_000,
        "top_k": 20,
    }


def test_the_session_is_accepted_when_the_model_is_prepared() -> None:
    assert see(V1, {"type": "session.created", "session_id": "rt_1"})[0].kind is Kind.ACCEPTED
    assert see(DEMO, {"type": "prepared", "prompt_length": 43})[0].kind is Kind.ACCEPTED


def test_the_first_message_of_a_slice_answers_it_and_its_speech_completes_it() -> None:
    sound = base64.b64encode(bytes(4 * 12_000)).decode()
    listen, text, audio, end, later = see(
        V1,
        delta("listen", input_id="slice-6"),
        delta("text", input_id="slice-7", text="hi"),
        delta("audio", input_id="slice-7", audio=sound),
        delta("listen", input_id="slice-7"),
        delta("listen", input_id="slice-9"),
    )
    assert (listen.kind, listen.frame, listen.count, listen.tokens) == (Kind.FRAME_DONE, 6, 1, 0)
    assert (text.kind, text.frame, text.count, text.tokens) == (Kind.FRAME_DONE, 7, 1, 1)
    assert (audio.kind, audio.frame, audio.count, audio.audio) == (Kind.FRAME_DONE, 7, 0, 0.5)
    assert end.kind is Kind.OTHER
    assert (later.frame, later.count) == (9, 1)


def test_without_names_slices_are_told_apart_by_the_kv_cache_and_counted() -> None:
    def at(kind: str, kv: float) -> dict[str, Any]:
        return delta(kind, metrics={"kv_cache_length": kv})

    seen = see(V1, at("listen", 68), at("listen", 93), at("text", 118), at("audio", 118), at("listen", 118))
    assert [(each.kind, each.frame, each.count) for each in seen] == [
        (Kind.FRAME_DONE, None, 1),
        (Kind.FRAME_DONE, None, 1),
        (Kind.FRAME_DONE, None, 1),
        (Kind.FRAME_DONE, None, 0),
        (Kind.OTHER, None, 1),
    ]
    full = see(V1, at("listen", 8192), at("listen", 8192))
    assert [each.count for each in full if each.kind is Kind.FRAME_DONE] == [1, 1]


def test_with_neither_speech_belongs_to_the_text_before_it() -> None:
    counts = [each.count for each in see(V1, delta("text"), delta("audio"), delta("audio"), delta("listen"))]
    assert counts == [1, 0, 1, 1]


def test_the_older_names_of_v1_are_understood() -> None:
    listen, spoken = see(
        V1,
        {"type": "response.listen", "kv_cache_length": 68},
        {"type": "response.output_audio.delta", "text": "hi", "audio": "AAAA", "kv_cache_length": 93},
    )
    assert (listen.kind, listen.tokens) == (Kind.FRAME_DONE, 0)
    assert (spoken.kind, spoken.count, spoken.tokens) == (Kind.FRAME_DONE, 1, 1)


@pytest.mark.parametrize("name", ["slice-", "slice-x", "slice-" + "9" * 40, "7", 7, "", None])
def test_names_that_are_not_ours_tie_nothing(name: object) -> None:
    (seen,) = see(V1, delta("listen", input_id=name))
    assert (seen.kind, seen.frame) == (Kind.FRAME_DONE, None)


def test_results_of_the_demo_are_counted_and_a_failed_chunk_is_one() -> None:
    early, ready, listen, failed, spoken = see(
        DEMO,
        {"type": "error", "error": "No worker available"},
        {"type": "prepared"},
        {"type": "result", "is_listen": True, "audio_data": None},
        {"type": "error", "error": "CUDA out of memory"},
        {"type": "result", "is_listen": False, "audio_data": base64.b64encode(bytes(96_000)).decode()},
    )
    assert (early.kind, early.message) == (Kind.ERROR, "No worker available")
    assert ready.kind is Kind.ACCEPTED
    assert (listen.frame, listen.tokens) == (0, 0)
    assert (failed.kind, failed.fatal) == (Kind.ERROR, False)
    assert (spoken.frame, spoken.tokens, spoken.audio) == (2, 1, 1.0)


@pytest.mark.parametrize(
    ("name", "said", "words"),
    [
        (V1, {"type": "session.closed", "reason": "context_full"}, "context_full"),
        (DEMO, {"type": "timeout", "reason": "Pause timeout (60s)"}, "Pause timeout"),
        (DEMO, {"type": "stopped"}, "stopped"),
    ],
)
def test_goodbyes(name: str, said: dict[str, Any], words: str) -> None:
    (seen,) = see(name, said)
    assert seen.kind is Kind.CLOSED and words in seen.message


def test_a_full_queue_is_final() -> None:
    (seen,) = see(V1, {"type": "error", "error": {"code": "queue_full", "message": "full", "type": "server_error"}})
    assert (seen.kind, seen.fatal) == (Kind.ERROR, True)


def test_the_address_of_v1_says_mode_and_model() -> None:
    made = endpoint(V1, model="minicpm-o-4.5-realtime")
    assert made.url() == URL + "?mode=audio&model=minicpm-o-4.5-realtime"
    assert endpoint(V1, URL + "?mode=video").url() == URL + "?mode=video"
    assert made.subprotocols == ("map.realtime",)


def test_every_session_of_the_demo_has_a_name_of_its_own_unless_the_address_has_one() -> None:
    made = endpoint(DEMO, "wss://h:8006/ws/duplex")
    names = {made.url() for _ in range(100)}
    assert len(names) == 100 and all(name.startswith("wss://h:8006/ws/duplex/adx_") for name in names)
    assert endpoint(DEMO, "wss://h:8006/ws/duplex/adx_mine").url() == "wss://h:8006/ws/duplex/adx_mine"


@pytest.mark.parametrize(("name", "kind"), [(V1, FrameClass.UNIT_LOSSY), (DEMO, FrameClass.LOCKSTEP)])
def test_slices_are_of_one_second(name: str, kind: FrameClass) -> None:
    stream = fit(name, 1.0, 48_000)
    assert (stream.frame_class, stream.unit, stream.first_ready, stream.sample_rate) == (kind, 1.0, 1.0, 16_000)
    with pytest.raises(UsageError, match="not 80 ms"):
        fit(name, 0.08, 16_000)
