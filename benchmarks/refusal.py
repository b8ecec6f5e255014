"""How soon does a client of the `openai` package know that it is refused, while the worker serves all it may?

    python -m benchmarks.refusal --sessions 80 --refusals 100

Starts `metrobench serve` with so many places, lets `metrobench run` stream real speech on all of them, and connects
with the openai package meanwhile, again and again. Prints one JSON object: milliseconds from before the handshake to
the error and to the close (median, 99th percentile, largest), the errors' codes, the close codes. Exit code 1 where one
was not refused cleanly in 100 ms, or not all places were taken throughout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from websockets.exceptions import ConnectionClosed

from benchmarks.churn_kill import REFUSAL, health, serving

BETWEEN = 0.1
"""Seconds from one refusal to the next try."""
HANG = 10.0
"""Seconds after which a try counts as let in."""
JOIN = 120.0
"""Seconds in which all places must be taken."""


@dataclass(frozen=True)
class Try:
    """What came of one connection. Seconds from before the handshake."""

    error: float | None
    """None: no error came."""
    code: str | None
    closed: float
    close_code: int | None
    """None: it was closed without a close frame."""


def openai_client(url: str) -> AsyncOpenAI:
    """For the worker at that address."""
    base = url.removesuffix("/realtime")
    return AsyncOpenAI(api_key="none", base_url=base.replace("ws://", "http://"), websocket_base_url=base)


async def try_one(client: AsyncOpenAI) -> Try:
    """Connect and listen until it is closed. Raises TimeoutError where it is let in."""
    began, error, code = time.monotonic(), None, None
    async with asyncio.timeout(HANG), client.realtime.connect(model="any") as connection:
        try:
            while True:
                event = await connection.recv()
                if event.type == "error" and error is None:
                    error, code = time.monotonic() - began, event.error.code
        except ConnectionClosed as closed:
            return Try(error, code, time.monotonic() - began, closed.rcvd.code if closed.rcvd else None)


async def measure(url: str, sessions: int, count: int) -> tuple[list[Try], bool]:
    """All tries, one after another, and whether all places were taken before and after. The first try is not counted:
    the client loads what it needs."""
    found = []
    full = (await health(url))["sessions"] == sessions
    async with openai_client(url) as client:
        await try_one(client)
        for _ in range(count):
            found.append(await try_one(client))
            await asyncio.sleep(BETWEEN)
    return found, full and (await health(url))["sessions"] == sessions


def conclude(found: Sequence[Try]) -> dict[str, Any]:
    """Figures of all tries; `clean`: each had an error with a code and a close code, in time."""
    clean = all(one.code is not None and one.close_code is not None and one.closed <= REFUSAL for one in found)
    return {
        "refusals": len(found),
        "error_ms": _milliseconds([one.error for one in found if one.error is not None]),
        "closed_ms": _milliseconds([one.closed for one in found]),
        "codes": sorted({one.code for one in found if one.code is not None}),
        "close_codes": sorted({one.close_code for one in found if one.close_code is not None}),
        "clean": bool(found) and clean,
    }


def _milliseconds(times: Sequence[float]) -> list[float] | None:
    """Median, 99th percentile, largest; None of none."""
    return [round(1e3 * float(np.quantile(times, q)), 1) for q in (0.5, 0.99, 1.0)] if times else None


@contextmanager
def streaming(url: str, model: str, sessions: int) -> Iterator[None]:
    """`metrobench run` speaks on all places. Exits where they are not all taken in time."""
    with tempfile.TemporaryDirectory() as out:
        asked = ("--endpoint", url, "--model", model, "--sessions", str(sessions), "--out", out, "--quiet")
        command = [sys.executable, "-m", "metrobench", "run", *asked, "--duration", "5m"]
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + JOIN
            while asyncio.run(health(url))["sessions"] < sessions:
                if load.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"the {sessions} sessions that are to keep the worker busy did not all begin")
                time.sleep(0.5)
            yield
        finally:
            load.terminate()
            load.wait()


def main() -> None:
    """Serve, fill, knock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=80, help="places of the worker, all taken")
    parser.add_argument("--refusals", type=int, default=100)
    parser.add_argument("--model", default="minicpm-o")
    asked = parser.parse_args()
    with serving(asked.model, asked.sessions) as (url, _), streaming(url, asked.model, asked.sessions):
        found, full = asyncio.run(measure(url, asked.sessions, asked.refusals))
    result = conclude(found) | {"all_places_taken": full}
    print(json.dumps(result, indent=1))
    sys.exit(0 if result["clean"] and full else 1)


if __name__ == "__main__":
    main()
