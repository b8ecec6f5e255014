"""The gateway's door: who is refused, what they are told, and that a place is free again at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
from websockets.asyncio.client import connect

from metrobench.admission.choice import parse_admission
from metrobench.worker.admission import Admission
from metrobench.worker.engine import EngineStats
from tests.worker.rooms import room

HANG = 30


def scene(play: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """An asynchronous test."""

    @wraps(play)
    def run() -> None:
        asyncio.run(asyncio.wait_for(play(), HANG))

    return run


async def _first(socket: Any) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(await socket.recv())
    return event


@scene
async def test_a_refused_client_gets_the_reason_the_hint_and_close_code_1013() -> None:
    async with room(8, "static:1") as place, connect(place.url) as first, connect(place.url) as second:
        assert (await _first(first))["type"] == "session.created"
        error = (await _first(second))["error"]
        assert (error["type"], error["code"]) == ("server_error", "session_limit")
        assert error["message"] == "all 1 sessions of the fixed limit are taken; try again in 10 s"
        assert error["metrobench"] == {"retry_after_ms": 10_000.0, "sessions": 1, "cap": 1}
        await second.wait_closed()
        assert (second.close_code, second.close_reason) == (1013, "session_limit")


@scene
async def test_a_place_is_free_again_when_its_session_ends() -> None:
    async with room(8, "static:1") as place:
        async with connect(place.url) as first:
            assert (await _first(first))["type"] == "session.created"
        for _ in range(100):
            async with connect(place.url) as second:
                if (await _first(second))["type"] == "session.created":
                    return
            await asyncio.sleep(0.01)
    pytest.fail("the place was never free again")


@scene
async def test_refused_clients_leave_nothing_behind() -> None:
    async with room(8, "static:1") as place, connect(place.url) as first:
        await _first(first)
        for _ in range(5):
            async with connect(place.url) as other:
                assert (await _first(other))["type"] == "error"
        assert len(place.gateway.sessions) == 1
        assert len(place.engine.chunks) == 1


class Heard:
    """A session as far as the door sees it."""

    def __init__(self, *waits: float, budget: float | None = None) -> None:
        self.waits = list(waits)
        self.budget = budget
        self.overdue = 0.0

    def latencies(self, now: float, overdue: float) -> list[float]:
        self.overdue = overdue
        return self.waits


def admission(rule: str = "aimd") -> Admission:
    return Admission(parse_admission(rule), 1.0, EngineStats(kv_usage=0.4), None, 100, clock=lambda: 5.0)


def observe(door: Admission, *sessions: Heard, void: bool = False) -> None:
    door.observe(list(sessions), void)  # type: ignore[arg-type]


def test_what_the_sessions_waited_moves_the_cap() -> None:
    door = admission()
    for _ in range(3):
        observe(door, *[Heard(0.6, 0.7)] * 10)
    assert door.door.controller.cap == 9


def test_a_session_with_a_tighter_budget_of_its_own_counts_by_that() -> None:
    door, tight = admission(), Heard(0.03, budget=0.1)
    observe(door, *[tight] * 16)
    assert door.ask(40).signals.p50 == pytest.approx(0.3)
    # 30 % of its own budget
    assert tight.overdue == pytest.approx(0.03)


def test_a_period_in_which_the_gateway_stood_still_moves_nothing() -> None:
    door = admission()
    for _ in range(5):
        observe(door, *[Heard(0.6, 0.7)] * 10, void=True)
    assert door.door.controller.cap == 16


def test_the_signals_of_a_refusal_are_those_of_the_moment() -> None:
    door = admission()
    observe(door, *[Heard(0.2)] * 16)
    decision = door.ask(40)
    assert (decision.signals.p50, decision.signals.rho, decision.signals.sessions) == (0.2, 0.4, 40)
