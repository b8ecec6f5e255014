"""A session's ledger is exact, and it never has more than one frame in flight."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from metrobench.policy import KvPolicy
from metrobench.worker.engine import Chunk, Output
from metrobench.worker.sessions import FrameDone, Session, SessionRules
from tests.worker.engines import ScriptedEngine, settle

RULES = SessionRules(
    listening=1, speaking=4, tokens_in=12, max_model_len=1000, policy=KvPolicy("unbounded"), guard=True, seed=5
)
FRAME = list(range(16, 28))


class Notes:
    """A listener that writes everything down."""

    def __init__(self) -> None:
        self.done: list[FrameDone] = []
        self.first: list[tuple[int, list[int], bool]] = []
        self.fills: list[int] = []
        self.failures: list[tuple[str, str]] = []

    def speaks(self, frame: int, user_speaks: bool) -> bool:
        return not user_speaks

    def first_token(self, frame: int, tokens: list[int], speaking: bool) -> None:
        self.first.append((frame, tokens, speaking))

    def frame_done(self, done: FrameDone) -> None:
        self.done.append(done)

    def filled(self, tokens: int) -> None:
        self.fills.append(tokens)

    def failed(self, code: str, message: str) -> None:
        self.failures.append((code, message))


def scene(
    play: Callable[[ScriptedEngine, Session, Notes], Coroutine[Any, Any, None]], rules: SessionRules = RULES
) -> None:
    async def stage() -> None:
        engine, notes = ScriptedEngine(), Notes()
        session = Session(engine, 1, rules, notes)
        try:
            await asyncio.wait_for(play(engine, session, notes), 30)
        finally:
            session.close()
            await session.wait_closed()

    asyncio.run(stage())


def test_each_frame_adds_its_tokens_and_all_sampled_but_the_last():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        session.push(FRAME, user_speaks=True)
        await settle()
        assert session.total == 12 + 1 - 1
        session.push(FRAME, user_speaks=False)
        await settle()
        assert session.total == 12 + 12 + 4 - 1
        assert [done.resident for done in notes.done] == [12, 27]

    scene(play)


def test_frames_come_back_in_order_with_their_tokens():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        for index in range(6):
            session.push(FRAME, user_speaks=index % 2 == 0)
        await settle(60)
        assert [done.frame for done in notes.done] == list(range(6))
        assert [len(done.tokens) for done in notes.done] == [1, 4, 1, 4, 1, 4]
        assert [done.speaking for done in notes.done] == [False, True] * 3
        assert session.frames == 6
        assert session.idle

    scene(play)


def test_only_one_frame_is_ever_in_flight():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        engine.gate.clear()
        for _ in range(5):
            session.push(FRAME, user_speaks=True)
        await settle()
        assert len(engine.chunks["session-1"]) == 1
        assert session.backlog == 4
        engine.gate.set()
        await settle(60)
        assert len(notes.done) == 5
        assert engine.most_waiting == 1

    scene(play)


def test_the_first_token_of_a_frame_is_told_at_once():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        engine.gate.clear()
        session.push(FRAME, user_speaks=False)
        await settle()
        assert notes.first == [(0, [100], True)]
        assert notes.done == []
        engine.gate.set()
        await settle()
        assert notes.done[0].tokens == [100, 101, 102, 103]

    scene(play)


def test_a_fill_goes_in_before_any_audio_and_counts_as_its_tokens():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        session.fill(300)
        session.push(FRAME, user_speaks=True)
        await settle(40)
        fill, frame = engine.chunks["session-1"]
        assert (len(fill.tokens), fill.decode) == (300, 1)
        assert frame.tokens == FRAME
        assert notes.fills == [300]
        assert session.total == 312
        assert [done.frame for done in notes.done] == [0]

    scene(play)


def test_fills_differ_between_sessions_and_repeat_with_the_seed():
    async def play() -> None:
        engine = ScriptedEngine()
        sessions = [Session(engine, number, RULES, Notes()) for number in (1, 2)]
        again = Session(ScriptedEngine(), 1, RULES, Notes())
        for session in (*sessions, again):
            session.fill(64)
        await settle()
        one, two = (engine.chunks[f"session-{number}"][0].tokens for number in (1, 2))
        assert one != two
        assert again._engine.chunks["session-1"][0].tokens == one  # type: ignore[attr-defined]
        assert all(0 <= token < engine.vocab for token in one)
        for session in (*sessions, again):
            session.close()
            await session.wait_closed()

    asyncio.run(play())


def test_resident_tokens_stop_at_the_window():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        for _ in range(4):
            session.push(FRAME, user_speaks=True)
        await settle(60)
        assert session.total == 48
        assert session.resident == 32
        assert [done.resident for done in notes.done] == [12, 24, 32, 32]

    scene(play, replace(RULES, policy=KvPolicy("window", 32)))


def test_a_frame_that_would_pass_the_limit_ends_its_session_only():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        other_notes = Notes()
        other = Session(engine, 2, RULES, other_notes)
        session.fill(980)
        session.push(FRAME, user_speaks=True)
        session.push(FRAME, user_speaks=True)
        other.push(FRAME, user_speaks=True)
        await settle(60)
        assert [done.frame for done in notes.done] == [0]
        assert [code for code, _ in notes.failures] == ["context_exhausted"]
        assert session.total == 992
        assert len(other_notes.done) == 1
        assert other_notes.failures == []
        other.close()
        await other.wait_closed()

    scene(play)


@pytest.mark.parametrize(("fill", "fits"), [(987, True), (988, False)])
def test_the_limit_is_exact(fill: int, fits: bool):
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        session.fill(fill)
        session.push(FRAME, user_speaks=True)
        await settle(40)
        assert len(notes.done) == fits

    scene(play)


def test_without_the_guard_the_engine_is_left_to_deal_with_it():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        session.fill(999)
        session.push(FRAME, user_speaks=True)
        await settle(40)
        assert len(notes.done) == 1
        assert notes.failures == []

    scene(play, replace(RULES, guard=False))


def test_a_closed_session_aborts_its_request_and_tells_nobody():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        engine.gate.clear()
        session.push(FRAME, user_speaks=False)
        await settle()
        session.close()
        await session.wait_closed()
        assert engine.ended == ["session-1"]
        assert notes.failures == []
        session.close()

    scene(play)


def test_a_dead_engine_is_told_once():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        engine.gate.clear()
        session.push(FRAME, user_speaks=True)
        await settle()
        engine.dead.set()
        await settle()
        assert notes.failures == [("engine_dead", "the engine process was killed by signal 9")]

    scene(play)


def test_an_engine_that_ends_a_session_is_an_error():
    class Quitter(ScriptedEngine):
        async def stream(self, request, chunks):  # type: ignore[no-untyped-def, override]
            async for chunk in self._answer(await anext(chunks)):
                yield chunk

    async def play() -> None:
        notes = Notes()
        session = Session(Quitter(), 1, RULES, notes)
        session.push(FRAME, user_speaks=True)
        await settle()
        assert [code for code, _ in notes.failures] == ["engine_error"]
        await session.wait_closed()

    asyncio.run(play())


def test_an_engine_that_decodes_less_than_it_was_asked_for_is_an_error_and_no_light_load():
    class Lazy(ScriptedEngine):
        async def _answer(self, chunk: Chunk) -> AsyncIterator[Output]:
            yield Output([100], True)

    async def play() -> None:
        notes = Notes()
        session = Session(Lazy(), 1, RULES, notes)
        session.push(FRAME, user_speaks=False)
        await settle()
        assert notes.failures == [("engine_error", f"the engine decoded 1 tokens, not {RULES.speaking}")]
        session.close()
        await session.wait_closed()

    asyncio.run(play())


BOUNDED = replace(RULES, policy=KvPolicy("sinks", 32, 8), max_model_len=100)


def contexts(engine: ScriptedEngine) -> list[list[int]]:
    """Every token that reached the engine, by request, sampled ones left out."""
    return [[token for chunk in chunks for token in chunk.tokens] for chunks in engine.chunks.values()]


def test_a_bounded_session_outlives_max_model_len_and_loses_no_frame():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        for index in range(40):
            session.push([1000 + 12 * index + place for place in range(12)], user_speaks=True)
        await settle(1500)
        assert [done.frame for done in notes.done] == list(range(40))
        assert notes.failures == []
        assert session.rollovers == len(engine.chunks) - 1 >= 5
        assert max(len(context) for context in contexts(engine)) <= 100
        assert engine.most_waiting == 1

    scene(play, BOUNDED)


def test_the_successor_starts_from_the_sinks_and_the_last_tokens_of_the_window():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        frames = [[1000 + 12 * index + place for place in range(12)] for index in range(9)]
        for frame in frames:
            session.push(frame, user_speaks=True)
        await settle(400)
        spoken = [token for frame in frames for token in frame]
        first, second = contexts(engine)[:2]
        kept = engine.chunks["session-1.1"][0].tokens
        assert kept == spoken[:8] + first[-32:]
        assert second[40:52] == spoken[len(first) : len(first) + 12]

    scene(play, BOUNDED)


def test_the_frame_after_a_rollover_says_so():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        for _ in range(9):
            session.push(FRAME, user_speaks=True)
        await settle(400)
        first = sum(len(chunk.tokens) for chunk in engine.chunks["session-1"]) // 12
        assert [done.frame for done in notes.done if done.rollover] == [first]

    scene(play, BOUNDED)


def test_sampled_tokens_are_part_of_what_is_kept():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        for _ in range(8):
            session.push(FRAME, user_speaks=False)
        await settle(400)
        kept = engine.chunks["session-1.1"][0].tokens
        assert kept[-15:] == [*FRAME, 100, 101, 102]

    scene(play, BOUNDED)


def test_a_recycled_session_is_built_again_whenever_it_reaches_twice_its_window():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        for _ in range(60):
            session.push(FRAME, user_speaks=True)
        await settle(2000)
        assert len(notes.done) == 60
        assert all(len(context) <= 2 * 48 + 16 for context in contexts(engine))
        assert all(len(chunks[0].tokens) == 48 for name, chunks in engine.chunks.items() if "." in name)

    scene(play, replace(RULES, policy=KvPolicy("recycle", 48)))


def test_a_session_that_the_engine_ends_fails_with_its_reason():
    async def play(engine: ScriptedEngine, session: Session, notes: Notes) -> None:
        engine.ends = "kv_exhausted"
        session.push(FRAME, user_speaks=True)
        await settle(40)
        assert [code for code, _ in notes.failures] == ["kv_exhausted"]

    scene(play)
