"""How soon does a client of the `openai` package know that it is refused, while the worker serves all it may?

    python benchmarks/refusal.py --sessions 80 --refusals 100

Starts `metrobench serve` with so many places, lets `metrobench run` stream real speech on all of them, and connects
with the openai package meanwhile, again and again. Prints one JSON object: milliseconds from before the handshake to
the error and to the close, the error's code, the close code. Exit code 1 where one was not refused cleanly in 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from websockets.exceptions import ConnectionClosed

ALLOWED = 0.1
"""Seconds."""
BETWEEN = 0.1
"""Seconds from one refusal to the next try."""
METROBENCH = (sys.executable, "-m", "metrobench")


async def refused(client: AsyncOpenAI) -> dict[str, Any]:
    """One try: seconds to the error and to the close, and what they said."""
    began, error = time.monotonic(), None
    async with client.realtime.connect(model="any") as connection:
        try:
            async for event in connection:
                if event.type == "error" and error is None:
                    error = {"seconds": time.monotonic() - began, "code": event.error.code, "type": event.error.type}
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else None
            return {"error": error, "closed": time.monotonic() - began, "close_code": code}
    return {"error": error, "closed": time.monotonic() - began, "close_code": 1000}


async def measure(url: str, count: int) -> list[dict[str, Any]]:
    """All tries, one after another, over one client that is warm."""
    base = url.removesuffix("/realtime")
    client = AsyncOpenAI(api_key="none", base_url=base.replace("ws://", "http://"), websocket_base_url=base)
    await refused(client)
    found = []
    for _ in range(count):
        found.append(await refused(client))
        await asyncio.sleep(BETWEEN)
    await client.close()
    return found


def conclude(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of all tries; `clean`: each had an error with a code, then a close code, in time."""
    errors = np.array([one["error"]["seconds"] for one in found if one["error"]])
    closes = np.array([one["closed"] for one in found])
    return {
        "refusals": len(found),
        "error_ms": [round(1e3 * float(np.quantile(errors, q)), 1) for q in (0.5, 0.99, 1.0)] if len(errors) else None,
        "closed_ms": [round(1e3 * float(np.quantile(closes, q)), 1) for q in (0.5, 0.99, 1.0)],
        "codes": sorted({one["error"]["code"] for one in found if one["error"]}),
        "close_codes": sorted({one["close_code"] for one in found}),
        "clean": len(errors) == len(found) and bool(closes.max() <= ALLOWED),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=80)
    parser.add_argument("--refusals", type=int, default=100)
    parser.add_argument("--model", default="minicpm-o")
    given = parser.parse_args()
    places = ("--admission", f"static:{given.sessions}", "--max-sessions", str(given.sessions))
    serve = (*METROBENCH, "serve", "--model", given.model, "--port", "0", *places)
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server, tempfile.TemporaryDirectory() as out:
        assert server.stdout is not None
        url = next(found[0] for line in server.stdout if (found := re.search(r"ws://\S+", line)))
        stream = ("run", "--endpoint", url, "--model", given.model, "--sessions", str(given.sessions), "--out", out)
        load = subprocess.Popen([*METROBENCH, *stream, "--quiet", "--duration", "90s"])
        time.sleep(20.0)
        result = conclude(asyncio.run(measure(url, given.refusals)))
        result["load_still_streams"] = load.poll() is None
        load.terminate()
        load.wait()
        server.terminate()
    print(json.dumps(result, indent=1))
    sys.exit(0 if result["clean"] and result["load_still_streams"] else 1)


if __name__ == "__main__":
    main()
