"""An independent server that measures when audio arrives: `python benchmarks/sink.py --out FILE [--core N]`.

It answers every frame at once, and stamps each chunk with CLOCK_MONOTONIC when it is read. Prints its port; writes the
arrivals when its standard input closes.
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

from metrobench.doctor.echo import Echo, listen


class Sink(Echo):
    """One connection and the arrival times of its chunks."""

    def __init__(self, unit_chunks: int) -> None:
        super().__init__(unit_chunks)
        self.arrivals = array("d")

    def heard(self) -> None:
        self.arrivals.append(monotonic())


async def serve(unit_chunks: int, nap: float, out: Path, scheduler: str) -> None:
    """Listen until standard input closes, then write `out` (npz: one array of arrival times for each connection)."""
    loop = asyncio.get_running_loop()
    sinks: list[Sink] = []

    def session() -> Sink:
        sinks.append(Sink(unit_chunks))
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
