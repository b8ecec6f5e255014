"""Sessions in front of the engine: who goes first, and that nobody who vanishes keeps a place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from metrobench.errors import UsageError
from metrobench.worker.sessions import Session
from metrobench.worker.turnstile import Order, Turnstile, parse_order
from tests.worker.engines import ScriptedEngine, settle
from tests.worker.test_sessions import FRAME, RULES, Notes

HANG = 30


def scene(play: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """An asynchronous test."""

    @wraps(play)
    def run() -> None:
        asyncio.run(asyncio.wait_for(play(), HANG))

    return run


async def closed(*sessions: Session) -> None:
    for session in sessions:
        session.close()
        await session.wait_closed()


def submitted(engine: ScriptedEngine) -> set[str]:
    return {request for request, chunks in engine.chunks.items() if chunks}


@scene
async def test_the_tightest_budget_goes_first_when_there_is_room() -> None:
    engine, turnstile = ScriptedEngine(), Turnstile(Order(1), 1.0)
    sessions = [Session(engine, number, RULES, Notes(), turnstile) for number in range(3)]
    sessions[2].budget = 0.08
    engine.gate.clear()
    for session in sessions:
        session.push(FRAME, True)
        await settle()
    assert submitted(engine) == {"session-0"}
    engine.gate.set()
    order: list[str] = []
    while len(order) < 3:
        await settle(1)
        order += [request for request in submitted(engine) if request not in order]
    assert order == ["session-0", "session-2", "session-1"]
    await closed(*sessions)


@scene
async def test_no_more_frames_are_in_the_engine_than_may() -> None:
    engine, turnstile = ScriptedEngine(), Turnstile(Order(2), 1.0)
    sessions = [Session(engine, number, RULES, Notes(), turnstile) for number in range(5)]
    engine.gate.clear()
    for session in sessions:
        session.push(FRAME, True)
    await settle()
    assert len(submitted(engine)) == 2
    engine.gate.set()
    while not all(session.frames for session in sessions):
        await settle()
    await closed(*sessions)


@scene
async def test_a_session_that_ends_inside_or_waiting_gives_its_place_back() -> None:
    engine, turnstile = ScriptedEngine(), Turnstile(Order(1), 1.0)
    sessions = [Session(engine, number, RULES, Notes(), turnstile) for number in range(3)]
    engine.gate.clear()
    for session in sessions:
        session.push(FRAME, True)
        await settle()
    await closed(sessions[1])
    await closed(sessions[0])
    engine.gate.set()
    while not sessions[2].frames:
        await settle()
    await closed(sessions[2])


@scene
async def test_frames_are_let_in_together_at_the_next_tick() -> None:
    engine, turnstile = ScriptedEngine(), Turnstile(Order(8, 0.05), 1.0)
    sessions = [Session(engine, number, RULES, Notes(), turnstile) for number in range(3)]
    for session in sessions:
        session.push(FRAME, True)
    await settle()
    assert not submitted(engine)
    while not all(session.frames for session in sessions):
        await asyncio.sleep(0.01)
    await closed(*sessions)


@scene
async def test_a_fill_and_the_frames_behind_it_go_through() -> None:
    engine, turnstile = ScriptedEngine(), Turnstile(Order(1), 1.0)
    session = Session(engine, 1, RULES, Notes(), turnstile)
    session.fill(100)
    for _ in range(3):
        session.push(FRAME, True)
    while session.frames < 3:
        await settle()
    assert session.total == 100 + 3 * len(FRAME)
    await closed(session)


@pytest.mark.parametrize(
    ("text", "order"),
    [("arrival", Order()), ("deadline:8", Order(8)), ("deadline:8@20ms", Order(8, 0.02))],
)
def test_an_order_as_it_is_typed(text: str, order: Order) -> None:
    assert parse_order(text) == order and str(order) == text


@pytest.mark.parametrize("text", ["", "deadline", "deadline:0", "deadline:8@", "deadline:8@soon", "edf"])
def test_an_unknown_order_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_order(text)
