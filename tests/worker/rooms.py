"""A gateway with a scripted engine on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from metrobench.admission.choice import parse_admission
from metrobench.worker.admission import Admission
from metrobench.worker.gateway import PATIENCE, Gateway
from metrobench.worker.turnstile import BY_ARRIVAL, Order, Turnstile
from tests.worker.engines import ScriptedEngine
from tests.worker.test_conversation import SHARED


@dataclass
class Room:
    """One running gateway."""

    gateway: Gateway
    engine: ScriptedEngine
    port: int

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime"


@asynccontextmanager
async def room(
    max_sessions: int = 4,
    admission: str = "kv",
    budget: float = 1.0,
    patience: float = PATIENCE,
    order: Order = BY_ARRIVAL,
) -> AsyncIterator[Room]:
    """A gateway until the block ends."""
    engine = ScriptedEngine()
    door = Admission(parse_admission(admission), budget, engine.stats, None, max_sessions)
    shared = replace(SHARED, turnstile=Turnstile(order, budget)) if order.most else SHARED
    gateway = Gateway(engine, shared, door, patience)
    port = await gateway.start("127.0.0.1", 0)
    try:
        yield Room(gateway, engine, port)
    finally:
        await gateway.close()
