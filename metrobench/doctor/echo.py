"""A server that answers every frame at once, in the dialect of the embedded worker: whatever is late, it is not it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable
from time import sleep
from types import TracebackType
from typing import Any

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server

SMALLEST_AUDIO = 300
"""Bytes: shorter messages are control messages."""
START = 10.0
"""Seconds to wait for the server's start and for its end."""

_DONE = '{"type":"metrobench.frame.done","frame":%d,"media_time":{"start_ms":%d,"duration_ms":%d},"tokens":3}'


class Echo(WSListener):  # type: ignore[misc]
    """One session: a complete answer after every `unit_chunks` chunks."""

    def __init__(self, unit_chunks: int) -> None:
        self._unit = unit_chunks
        self._chunks = 0
        self._next = unit_chunks

    def heard(self) -> None:
        """A chunk has arrived; called before anything is done about it."""

    def on_ws_connected(self, transport: WSTransport) -> None:
        transport.send(WSMsgType.TEXT, b'{"type":"session.created","session":{}}')

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif frame.payload_size >= SMALLEST_AUDIO:
            self.heard()
            self._chunks += 1
            if self._chunks == self._next:
                done = self._next // self._unit - 1
                self._next += self._unit
                transport.send(WSMsgType.TEXT, (_DONE % (done, done * self._unit * 20, self._unit * 20)).encode())
        elif json.loads(frame.get_payload_as_bytes())["type"] == "session.update":
            transport.send(WSMsgType.TEXT, b'{"type":"session.updated","session":{}}')


async def listen(session: Callable[[], Echo], nap: float) -> tuple[asyncio.Server, int]:
    """A listening server and its port. `nap`: seconds of rest between two readings, so that it reads in batches; 0:
    none."""
    loop = asyncio.get_running_loop()

    def rest() -> None:
        sleep(nap)
        loop.call_soon(rest)

    if nap > 0:
        rest()
    server = await ws_create_server(
        lambda _request: session(), "127.0.0.1", 0, read_buffer_init_size=8192, backlog=1024
    )
    return server, server.sockets[0].getsockname()[1]


class EchoThread:
    """The server in a thread of this process, on one core. Usable once, as a context manager."""

    def __init__(self, unit_chunks: int, core: int, nap: float) -> None:
        self._unit_chunks = unit_chunks
        self._core = core
        self._nap = nap
        self._thread = threading.Thread(target=self._run, name="echo", daemon=True)
        self._up = threading.Event()
        self._end: Callable[[], Any] = lambda: None
        self._error: Exception | None = None
        self.url = ""

    def __enter__(self) -> EchoThread:
        """Raises OSError where the server does not start."""
        self._thread.start()
        self._up.wait(START)
        if self._error is not None or not self.url:
            raise OSError(f"the echo server does not start: {self._error or 'no answer'}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._thread.join(START)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {self._core})
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except Exception as error:
            self._error = error
        finally:
            self._up.set()

    async def _serve(self) -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(ended.set)
        server, port = await listen(lambda: Echo(self._unit_chunks), self._nap)
        self.url = f"ws://127.0.0.1:{port}/v1/realtime"
        self._up.set()
        await ended.wait()
        server.close()
