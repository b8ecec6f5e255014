"""An independent server that measures when audio arrives: `python benchmarks/sink.py --out FILE [--core N]`.

It speaks the protocols of benchmarks/wires.py, answers every frame at once, and stamps each chunk with CLOCK_MONOTONIC
when it is read. Prints its port; writes the arrivals when its standard input closes.
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
from time import monotonic

import numpy as np
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport
from wires import WIRES, Wire

from metrobench.doctor.echo import listen
from metrobench.schedule import last_chunk

_AUDIO = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION)


class Sink(WSListener):  # type: ignore[misc]
    """One connection and the arrival times of its chunks."""

    def __init__(self, wire: Wire, unit: float, first_ready: float) -> None:
        self.arrivals = array("d")
        self._wire = wire
        self._type = WSMsgType.BINARY if wire.binary else WSMsgType.TEXT
        self._controls = wire.controls
        self._smallest, self._step = wire.smallest, wire.step
        self._unit, self._first_ready = unit, first_ready
        self._frame = 0
        self._next = last_chunk(0, unit, first_ready)

    def on_ws_connected(self, transport: WSTransport) -> None:
        for message in self._wire.hello:
            transport.send(self._type, message)
        if not self._controls:
            self._accept(transport)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind not in _AUDIO:
            if kind == WSMsgType.CLOSE:
                transport.send_close(frame.get_close_code())
                transport.disconnect()
        elif self._controls:
            self._controls -= 1
            if not self._controls:
                self._accept(transport)
        elif frame.payload_size >= self._smallest and (
            self._step == 1 or (kind == WSMsgType.CONTINUATION and frame.fin)
        ):
            self._heard(transport)

    def _accept(self, transport: WSTransport) -> None:
        for message in self._wire.accepted:
            transport.send(self._type, message)

    def _heard(self, transport: WSTransport) -> None:
        self.arrivals.append(monotonic())
        chunk = len(self.arrivals) * self._step - 1
        if self._wire.acknowledge is not None:
            transport.send(self._type, self._wire.acknowledge(chunk))
        while chunk >= self._next:
            for message in self._wire.answer(self._frame):
                transport.send(self._type, message)
            self._frame += 1
            self._next = last_chunk(self._frame, self._unit, self._first_ready)


async def serve(wire: Wire, unit: float, first_ready: float, nap: float, out: Path, scheduler: str) -> None:
    """Listen until standard input closes, then write `out` (npz: one array of arrival times for each connection)."""
    loop = asyncio.get_running_loop()
    sinks: list[Sink] = []

    def session() -> Sink:
        sinks.append(Sink(wire, unit, first_ready))
        return sinks[-1]

    _server, port = await listen(session, nap)
    gc.freeze()
    gc.disable()
    print(json.dumps({"port": port, "scheduler": scheduler}), flush=True)
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
    parser.add_argument("--protocol", choices=sorted(WIRES), default="realtime")
    parser.add_argument("--unit", type=float, default=1.0, help="seconds of audio in a frame")
    parser.add_argument("--first-ready", type=float, default=1.0, help="seconds of audio that the first answer needs")
    parser.add_argument(
        "--nap-us", type=float, default=0.0, help="rest between two readings, so that it reads in batches"
    )
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    wire, nap = WIRES[options.protocol], options.nap_us * 1e-6
    uvloop.run(serve(wire, options.unit, options.first_ready, nap, options.out, real_time()))


if __name__ == "__main__":
    main()
