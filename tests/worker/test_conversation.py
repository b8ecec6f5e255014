"""The dialect, event by event, with a scripted engine and no socket."""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metrobench.policy import KvPolicy
from metrobench.worker.conversation import REPLY_UNITS, Conversation, Shared
from metrobench.worker.features import Extractor
from metrobench.worker.sessions import FrameDone, SessionRules
from tests.worker.engines import ScriptedEngine, settle

RATE, UNIT_MS = 16_000, 100
UNIT = RATE * UNIT_MS // 1000
SHARED = Shared(
    model="test-model",
    engine_name="scripted 1",
    stand_in=True,
    kv="window:64",
    unit_ms=UNIT_MS,
    sample_rate=RATE,
    extractor=Extractor(RATE, UNIT, 5, 4096),
    rules=SessionRules(
        listening=1, speaking=4, tokens_in=6, max_model_len=1000, policy=KvPolicy("window", 64), guard=True, seed=5
    ),
)
LOUD = (8000 * np.sin(np.arange(UNIT) / 3)).astype("<i2").tobytes()
QUIET = bytes(2 * UNIT)
FORMAT = {"type": "audio/pcm", "rate": RATE}


class Client:
    """The other end: what it was sent, and short ways to speak."""

    def __init__(self, engine: ScriptedEngine, shared: Shared) -> None:
        self.engine = engine
        self.events: list[dict[str, Any]] = []
        self.closed: list[tuple[int, str]] = []
        self.talk = Conversation(engine, 1, shared, self._take, lambda code, why: self.closed.append((code, why)))

    def _take(self, message: bytes) -> None:
        self.events.append(json.loads(message))

    async def says(self, kind: str, **fields: Any) -> None:
        self.talk.receive(json.dumps({"type": kind, **fields}).encode())
        await settle(40)

    async def audio(self, pcm: bytes) -> None:
        encoded = base64.b64encode(pcm)
        self.talk.receive(b'{"type":"input_audio_buffer.append","audio":"' + encoded + b'"}')
        await settle(40)

    async def opens(self, **session: Any) -> None:
        await self.says("session.update", session={"audio": {"input": {"format": FORMAT}}, **session})
        self.events.clear()

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def error(self) -> dict[str, Any]:
        (event,) = self.of("error")
        return event["error"]  # type: ignore[no-any-return]


def scene(play: Callable[[Client], Coroutine[Any, Any, None]], shared: Shared = SHARED) -> None:
    async def stage() -> None:
        client = Client(ScriptedEngine(), shared)
        try:
            await asyncio.wait_for(play(client), 30)
        finally:
            client.talk.gone()
            await client.talk.session.wait_closed()

    asyncio.run(stage())


def test_the_server_greets_first():
    async def play(client: Client) -> None:
        (created,) = client.events
        assert created["type"] == "session.created"
        session = created["session"]
        assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
        assert session["model"] == "test-model"
        own = session["metrobench"]
        assert own["stand_in"] is True
        assert (own["unit_ms"], own["first_ready_ms"], own["frame_class"]) == (100, 100, "A")
        assert (own["kv"], own["max_positions"], own["engine"]) == ("window:64", 1000, "scripted 1")

    scene(play)


def test_every_unit_of_audio_gives_one_frame_done():
    async def play(client: Client) -> None:
        await client.opens()
        await client.audio(LOUD[:-2])
        assert client.kinds() == []
        await client.audio(LOUD[-2:] + LOUD)
        assert client.kinds() == ["metrobench.frame.done"] * 2
        first, second = client.events
        assert (first["frame"], first["media_time"]) == (0, {"start_ms": 0, "duration_ms": 100})
        assert (second["frame"], second["media_time"]) == (1, {"start_ms": 100, "duration_ms": 100})
        assert (second["tokens"], second["speaking"], second["resident_tokens"]) == (1, False, 10)

    scene(play)


def test_media_time_stays_exact_for_hours():
    async def play(client: Client) -> None:
        client.talk.frame_done(FrameDone(1_234_567, [1], False, 5))
        assert client.events[-1]["media_time"]["start_ms"] == 123_456_700

    scene(play)


def test_the_model_speaks_when_the_user_is_silent_and_stops_when_the_user_speaks():
    async def play(client: Client) -> None:
        await client.opens()
        await client.audio(QUIET)
        assert client.kinds() == [
            "response.created",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "metrobench.frame.done",
        ]
        assert [event["delta"] for event in client.of("response.output_text.delta")] == ["t100 ", "t101 t102 t103 "]
        client.events.clear()
        await client.audio(QUIET)
        assert client.kinds() == ["response.output_text.delta"] * 2 + ["metrobench.frame.done"]
        client.events.clear()
        await client.audio(LOUD)
        assert client.kinds() == [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.done",
            "metrobench.frame.done",
        ]
        done = client.of("response.done")[0]["response"]
        assert done["status_details"]["reason"] == "turn_detected"
        assert done["output"][0]["content"][0]["text"] == "t100 t101 t102 t103 " * 2
        assert done["usage"]["output_tokens"] == 8

    scene(play)


def test_the_first_delta_comes_before_the_frame_is_done():
    async def play(client: Client) -> None:
        await client.opens()
        client.engine.gate.clear()
        await client.audio(QUIET)
        assert client.kinds()[-1] == "response.output_text.delta"
        assert client.of("metrobench.frame.done") == []
        client.engine.gate.set()
        await settle(40)
        assert client.kinds()[-1] == "metrobench.frame.done"

    scene(play)


def test_event_ids_never_repeat():
    async def play(client: Client) -> None:
        for _ in range(3):
            await client.audio(QUIET * 3 + LOUD)
        ids = [event["event_id"] for event in client.events]
        assert len(set(ids)) == len(ids) > 10

    scene(play)


def test_a_fill_is_acknowledged_when_it_is_in_place():
    async def play(client: Client) -> None:
        client.engine.gate.clear()
        client.events.clear()
        await client.says("session.update", session={"metrobench": {"fill_tokens": 40}})
        assert client.events == []
        client.engine.gate.set()
        await settle(40)
        (updated,) = client.events
        assert updated["type"] == "session.updated"
        assert updated["session"]["metrobench"]["filled_tokens"] == 40
        assert client.talk.session.total == 40

    scene(play)


@pytest.mark.parametrize("late", ["audio", "second"])
def test_a_fill_only_works_once_and_before_audio(late: str):
    async def play(client: Client) -> None:
        await client.opens(**({"metrobench": {"fill_tokens": 8}} if late == "second" else {}))
        if late == "audio":
            await client.audio(LOUD[:10])
        await client.says("session.update", session={"metrobench": {"fill_tokens": 40}})
        assert client.error()["code"] == "invalid_state"

    scene(play)


@pytest.mark.parametrize("tokens", [-1, 1000, 10**9, 1.5, "many", None])
def test_a_bad_fill_is_refused(tokens: object):
    async def play(client: Client) -> None:
        await client.says("session.update", session={"metrobench": {"fill_tokens": tokens}})
        assert client.error()["code"] in ("invalid_value", "invalid_event")
        assert client.closed == []

    scene(play)


def test_a_budget_of_its_own_is_kept_and_told():
    async def play(client: Client) -> None:
        await client.says("session.update", session={"metrobench": {"budget_ms": 80}})
        assert client.talk.session.budget == 0.08
        assert client.events[-1]["session"]["metrobench"]["budget_ms"] == 80.0
        await client.opens()
        assert client.talk.session.budget == 0.08

    scene(play)


@pytest.mark.parametrize("budget", [0, -5, 1e9, "soon"])
def test_a_bad_budget_is_refused(budget: object):
    async def play(client: Client) -> None:
        await client.says("session.update", session={"metrobench": {"budget_ms": budget}})
        assert client.error()["code"] in ("invalid_value", "invalid_event")
        assert client.talk.session.budget is None

    scene(play)


def test_audio_at_the_default_rate_is_resampled_to_the_same_frames():
    async def play(client: Client) -> None:
        samples = (8000 * np.sin(np.arange(2400) / 4.5)).astype("<i2").tobytes()
        await client.audio(samples * 3)
        assert [event["frame"] for event in client.of("metrobench.frame.done")] == [0, 1, 2]
        tokens = client.engine.chunks["session-1"][0].tokens
        assert len(tokens) == 5

    scene(play)


@pytest.mark.parametrize(
    "form", [{"type": "audio/pcmu"}, {"type": "audio/pcm", "rate": 1}, {"type": "audio/pcm", "rate": 16_001}]
)
def test_a_format_it_cannot_take_is_refused(form: dict[str, Any]):
    async def play(client: Client) -> None:
        await client.says("session.update", session={"audio": {"input": {"format": form}}})
        assert client.error()["code"] == "invalid_value"

    scene(play)


def test_the_rate_cannot_change_under_way():
    async def play(client: Client) -> None:
        await client.audio(LOUD)
        await client.says("session.update", session={"audio": {"input": {"format": FORMAT}}})
        assert client.error()["code"] == "invalid_state"

    scene(play)


def test_commit_pads_the_rest_with_silence():
    async def play(client: Client) -> None:
        await client.opens()
        await client.audio(LOUD + LOUD[:100])
        await client.says("input_audio_buffer.commit")
        assert [event["frame"] for event in client.of("metrobench.frame.done")] == [0, 1]
        (first,) = client.of("input_audio_buffer.committed")
        assert first["previous_item_id"] is None
        await client.audio(LOUD)
        await client.says("input_audio_buffer.commit")
        assert client.of("input_audio_buffer.committed")[1]["previous_item_id"] == first["item_id"]

    scene(play)


def test_commit_without_audio_is_an_error():
    async def play(client: Client) -> None:
        await client.says("input_audio_buffer.commit")
        assert client.error()["code"] == "input_audio_buffer_commit_empty"

    scene(play)


def test_clear_drops_the_unfinished_unit():
    async def play(client: Client) -> None:
        await client.opens()
        await client.audio(LOUD[:-2])
        await client.says("input_audio_buffer.clear")
        await client.audio(LOUD[:-2])
        assert client.kinds() == ["input_audio_buffer.cleared"]

    scene(play)


def test_a_reply_on_request_completes_by_itself():
    async def play(client: Client) -> None:
        await client.opens()
        await client.audio(LOUD)
        await client.says("input_audio_buffer.commit")
        await client.says("response.create")
        await settle(200)
        (done,) = client.of("response.done")
        assert done["response"]["status"] == "completed"
        spoken = [event for event in client.of("metrobench.frame.done") if event["speaking"]]
        assert len(spoken) == REPLY_UNITS
        assert client.talk.session.idle

    scene(play)


def test_a_reply_waits_for_the_audio_before_it():
    async def play(client: Client) -> None:
        await client.opens(audio={"input": {"format": FORMAT, "turn_detection": None}})
        client.engine.gate.clear()
        await client.audio(LOUD + QUIET + LOUD)
        await client.says("response.create")
        client.engine.gate.set()
        await settle(300)
        speaking = [event["speaking"] for event in client.of("metrobench.frame.done")]
        assert speaking == [False] * 3 + [True] * REPLY_UNITS

    scene(play)


def test_without_turn_detection_it_only_listens():
    async def play(client: Client) -> None:
        await client.opens(audio={"input": {"format": FORMAT, "turn_detection": None}})
        await client.audio(QUIET * 3)
        assert client.kinds() == ["metrobench.frame.done"] * 3
        assert not any(event["speaking"] for event in client.events)

    scene(play)


def test_a_second_reply_meanwhile_is_refused():
    async def play(client: Client) -> None:
        client.engine.gate.clear()
        await client.says("response.create")
        await client.says("response.create")
        assert client.error()["code"] == "conversation_already_has_active_response"

    scene(play)


def test_cancel_ends_the_reply_and_says_nothing_more():
    async def play(client: Client) -> None:
        await client.opens()
        client.engine.gate.clear()
        await client.audio(QUIET)
        await client.says("response.cancel")
        assert client.of("response.done")[0]["response"]["status"] == "cancelled"
        client.events.clear()
        client.engine.gate.set()
        await settle(40)
        await client.audio(QUIET)
        assert client.kinds() == ["metrobench.frame.done"] * 2
        await client.audio(LOUD + QUIET)
        assert "response.created" in client.kinds()

    scene(play)


def test_cancel_with_nothing_to_cancel_is_an_error():
    async def play(client: Client) -> None:
        await client.says("response.cancel")
        assert client.error()["code"] == "response_cancel_not_active"

    scene(play)


def test_a_polite_end():
    async def play(client: Client) -> None:
        await client.says("session.close")
        assert client.kinds()[-1] == "session.closed"
        assert client.closed == [(1000, "session closed")]

    scene(play)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b"[]", "invalid_event"),
        (b'{"type":7}', "invalid_event"),
        (b"{}", "invalid_event"),
        (b'{"type":"make.tea","event_id":"e9"}', "unknown_event"),
        (b'{"type":"input_audio_buffer.append"}', "missing_field"),
        (b'{"type":"input_audio_buffer.append","audio":"?"}', "invalid_audio"),
        ('{"type":"input_audio_buffer.append","audio":"ä"}'.encode(), "invalid_audio"),
        (b'{"type":"input_audio_buffer.append","audio":5}', "invalid_event"),
        (b'{"type":"session.update"}', "missing_field"),
        (b'{"type":"session.update","session":{"audio":3}}', "invalid_event"),
    ],
)
def test_nonsense_is_answered_and_the_session_lives(message: bytes, code: str):
    async def play(client: Client) -> None:
        client.talk.receive(message)
        assert client.error()["code"] == code
        assert client.closed == []
        await client.opens()
        await client.audio(LOUD)
        assert client.kinds() == ["metrobench.frame.done"]

    scene(play)


def test_an_error_names_the_event_that_caused_it():
    async def play(client: Client) -> None:
        await client.says("make.tea", event_id="mine")
        assert client.error()["event_id"] == "mine"

    scene(play)


def test_an_append_is_understood_in_any_spelling():
    async def play(client: Client) -> None:
        await client.opens()
        encoded = base64.b64encode(LOUD).decode()
        await client.says("input_audio_buffer.append", audio=encoded, event_id="e1")
        client.talk.receive(f'{{"type":"input_audio_buffer.append","audio":"{encoded}","event_id":"e2"}}'.encode())
        client.talk.receive(f'{{"audio":"{encoded}","type":"input_audio_buffer.append"}}'.encode())
        await settle(60)
        assert client.kinds() == ["metrobench.frame.done"] * 3

    scene(play)


def test_a_full_context_ends_the_session():
    async def play(client: Client) -> None:
        await client.opens(metrobench={"fill_tokens": 990})
        await client.audio(LOUD * 2)
        assert client.error()["code"] == "context_exhausted"
        assert client.closed == [(1008, "context_exhausted")]
        assert [event["frame"] for event in client.of("metrobench.frame.done")] == [0]

    scene(play, replace(SHARED, rules=replace(SHARED.rules, policy=KvPolicy("unbounded"))))


def test_the_first_frame_of_a_context_that_was_built_again_is_marked():
    async def play(client: Client) -> None:
        await client.opens(metrobench={"fill_tokens": 990})
        await client.audio(LOUD * 3)
        frames = client.of("metrobench.frame.done")
        assert [frame.get("rollover", False) for frame in frames] == [True, False, False]
        assert frames[0]["resident_tokens"] == 64

    scene(play)


def test_a_dead_engine_ends_the_session():
    async def play(client: Client) -> None:
        client.engine.gate.clear()
        await client.audio(LOUD * 2)
        client.engine.dead.set()
        await settle(40)
        assert client.error()["code"] == "engine_dead"
        assert client.closed == [(1011, "engine_dead")]

    scene(play)


def test_too_much_waiting_audio_ends_the_session():
    async def play(client: Client) -> None:
        await client.opens()
        client.engine.gate.clear()
        await client.audio(LOUD)
        await client.audio(QUIET * 6001)
        assert client.error()["code"] == "buffer_overflow"
        assert client.closed == [(1009, "buffer overflow")]

    scene(play)
