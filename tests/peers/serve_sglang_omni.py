"""sglang-omni's own wire layer and session runtime over a model that is none: after some work, it echoes each unit.

Run in an environment without torch. usage: serve_sglang_omni.py WHEELS PORT [WORK_MS] [CONNECTIONS]
"""

from __future__ import annotations

import asyncio
import sys
import types
from dataclasses import asdict
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

WHEELS, PORT = Path(sys.argv[1]).resolve(), int(sys.argv[2])
WORK = float(sys.argv[3]) / 1000.0 if len(sys.argv) > 3 else 0.005
"""Seconds of work for a unit; one unit at a time, so that overload is real queueing."""
CONNECTIONS = int(sys.argv[4]) if len(sys.argv) > 4 else 4
MODEL = "toy"
TALK_EVERY, TALK_FROM, TALK_TO = 50, 10, 40
"""Units of a round, and those in which the model speaks."""

# empty parents: their own modules import the torch pipeline
for name in ("sglang_omni", "sglang_omni.serve", "sglang_omni.serve.realtime"):
    parent = types.ModuleType(name)
    parent.__path__ = [str(WHEELS / name.replace(".", "/"))]
    sys.modules[name] = parent

from sglang_omni.serve.realtime.output import (  # noqa: E402
    AudioDelta,
    AudioFinished,
    ResponseFinished,
    ResponseStarted,
)
from sglang_omni.serve.realtime.protocol import SharedRealtimeSession  # noqa: E402
from sglang_omni.serve.realtime.runtime import SessionRuntime  # noqa: E402
from sglang_omni.serve.realtime.types import Capabilities, InteractionAdapter, RuntimeLimits  # noqa: E402

CAPABILITIES = Capabilities(
    interaction="native",
    input_sample_rate_hz=16_000,
    output_sample_rate_hz=16_000,
    output_modalities=("audio",),
    native_unit_ms=80,
)
ENGINE = asyncio.Lock()


class Echo(InteractionAdapter):
    """The model's place."""

    async def open(self, sid, config, emit):
        self.emit, self.unit, self.response = emit, 0, ""

    async def process(self, unit):
        async with ENGINE:
            await asyncio.sleep(WORK)
        place = self.unit % TALK_EVERY
        self.unit += 1
        if place == TALK_FROM:
            self.response = f"resp_{self.unit}"
            await self.emit(ResponseStarted(self.response))
        if self.response:
            item = f"item_{self.response}"
            await self.emit(AudioDelta(self.response, item, unit.pcm))
            if place == TALK_TO:
                await self.emit(AudioFinished(self.response, item))
                await self.emit(ResponseFinished(self.response, item, "", True, "completed", "stop"))
                self.response = ""
        return unit.real_samples

    async def close(self):
        pass


live: set[SharedRealtimeSession] = set()


async def capabilities(request: Request) -> JSONResponse:
    """What a client may ask first."""
    said = {"model": MODEL, **CAPABILITIES.to_granted_capabilities(), "limits": asdict(RuntimeLimits())}
    return JSONResponse(said)


async def realtime(websocket: WebSocket) -> None:
    """A connection, admitted by the rules of serve/openai_api.py."""
    if len(live) >= CONNECTIONS:
        full = {"error": {"message": "connection capacity exhausted"}}
        await websocket.send_denial_response(JSONResponse(full, status_code=503))
        return
    if "session_id" in websocket.query_params or websocket.query_params.get("model", MODEL) != MODEL:
        await websocket.close(code=1008)
        return
    session = SharedRealtimeSession(websocket, SessionRuntime(MODEL, CAPABILITIES, Echo, RuntimeLimits()))
    live.add(session)
    try:
        await websocket.accept()
        await session.run()
    finally:
        live.discard(session)
        await session.teardown()


routes = [Route("/v1/realtime/capabilities", capabilities), WebSocketRoute("/v1/realtime", realtime)]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=PORT, log_level="warning")
