"""An independent server that measures when audio arrives: `python benchmarks/sink.py --out FILE [--core N]`.

It speaks enough of the dialect of the embedded worker to be streamed to, answers every frame at once, and stamps each
chunk with CLOCK_MONOTONIC when it is read. Prints its port; writes the arrivals when its standard input closes.
It asks for SCHED_FIFO and prints whether it got it: without, its own lateness is 0.5-1.4 ms (p99) on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
from array import array
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_create_server

SMALLEST_AUDIO = 300
"""Bytes: shorter messages are control messages."""

_DONE = '{"type":"metrobench.frame.done","frame":%d,"media_time":{"start_ms":%d,"duration_ms":%d},"tokens":3}'


class Sink(WSListener):  # type: ignore[misc]
    """One connection and the arrival times of its chunks."""

    def __init__(self, unit_chunks: int) -> None:
        self.arrivals = array("d")
        self._unit = unit_chunks
        self._next = unit_chunks

    def on_ws_connected(self, transport: WSTransport) -> None:
        transport.send(WSMsgType.TEXT, b'{"type":"session.created","session":{}}')

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        now = monotonic()
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif frame.payload_size >= SMALLEST_AUDIO:
            arrivals = self.arrivals
            arrivals.append(now)
            if len(arrivals) == self._next:
                done = self._next // self._unit - 1
                self._next += self._unit
                transport.send(WSMsgType.TEXT, (_DONE % (done, done * self._unit * 20, self._unit * 20)).encode())
        elif json.loads(frame.get_payload_as_bytes())["type"] == "session.update":
            transport.send(WSMsgType.TEXT, b'{"type":"session.updated","session":{}}')


async def serve(unit_chunks: int, nap: float, out: Path, scheduler: str) -> None:
    """Listen until standard input closes, then write `out` (npz: one array of arrival times for each connection)."""
    loop = asyncio.get_running_loop()

    def rest() -> None:
        sleep(nap)
        loop.call_soon(rest)

    if nap > 0:
        rest()
    sinks: list[Sink] = []

    def listener(_request: Any) -> Sink:
        sinks.append(Sink(unit_chunks))
        return sinks[-1]

    server = await ws_create_server(listener, "127.0.0.1", 0, read_buffer_init_size=8192, backlog=1024)
    gc.freeze()
    gc.disable()
    print(json.dumps({"port": server.sockets[0].getsockname()[1], "scheduler": scheduler}), flush=True)
    ended = asyncio.Event()
    loop.add_reader(0, ended.set)
    await ended.wait()
    np.savez(out, *(np.array(sink.arrivals) for sink in sinks))


def real_time() -> str:
    """Ask for SCHED_FIFO; the name of the scheduler that this process now has."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    return "SCHED_FIFO" if os.sched_getscheduler(0) == os.SCHED_FIFO else "SCHED_OTHER"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--core", type=int)
    parser.add_argument("--unit-chunks", type=int, default=50)
    parser.add_argument(
        "--nap-us", type=float, default=0.0, help="rest between two readings, so that it reads in batches"
    )
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    uvloop.run(serve(options.unit_chunks, options.nap_us * 1e-6, options.out, real_time()))


if __name__ == "__main__":
    main()
