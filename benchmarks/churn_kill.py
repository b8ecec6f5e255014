"""Does a worker whose clients are killed at random leak a place, a KV block or a socket?

    python benchmarks/churn_kill.py --minutes 5

Starts `metrobench serve`, keeps its places busy with clients that speak, and kills each in one of the ways of KILLS: a
reset, a close frame, a FIN without one, half a message, silence for ever, a handshake that stops half-way. Afterwards
it asks the worker: every place free, the KV pool as before, as many open files, and all places can be taken again.
Prints one JSON object; exit code 1 where anything is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import math
import random
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK
from websockets.protocol import State

from metrobench.load.wire import client_frame

PIECE = 0.1
"""Seconds of audio that a client sends at a time."""
LONGEST = 4.0
"""Seconds that a client speaks at the most before it is killed."""
RATE = 16_000
FILL = 160
"""Tokens of the sessions that start full."""
PATIENCE = 20.0
"""The worker's, metrobench.worker.gateway: a silent client is dropped within twice that."""
HANG = 60.0
REFUSAL = 0.1
"""Seconds within which one client too many must be refused."""


def _audio(rate: int) -> str:
    pcm = (8000 * np.sin(np.arange(round(rate * PIECE)) / 3)).astype("<i2").tobytes()
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})


async def _session(url: str, rate: int, fill: int = 0) -> ClientConnection:
    """An open session. Raises ConnectionClosed where it is refused."""
    opened = await connect(url, ping_interval=None, max_size=None, max_queue=None, open_timeout=HANG)
    own = {"metrobench": {"fill_tokens": fill}} if fill else {}
    listen = {"input": {"format": {"type": "audio/pcm", "rate": rate}}}
    await opened.send(json.dumps({"type": "session.update", "session": {"audio": listen, **own}}))
    return opened


async def _until(opened: ClientConnection, kind: str) -> dict[str, Any]:
    """The next event of that type. Raises ConnectionClosed."""
    async with asyncio.timeout(HANG):
        while True:
            event: dict[str, Any] = json.loads(await opened.recv())
            if event["type"] == kind:
                return event


def _abort(opened: ClientConnection) -> None:
    """Close with a reset: nothing that is under way arrives."""
    handle: socket.socket = opened.transport.get_extra_info("socket")
    # the server may have closed it meanwhile
    with contextlib.suppress(OSError):
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    opened.transport.abort()


async def _reset(opened: ClientConnection, _: random.Random) -> None:
    _abort(opened)


async def _close_frame(opened: ClientConnection, _: random.Random) -> None:
    await opened.close()


async def _close_event(opened: ClientConnection, _: random.Random) -> None:
    await opened.send(json.dumps({"type": "session.close"}))
    await opened.wait_closed()


async def _close_unread(opened: ClientConnection, dice: random.Random) -> None:
    """A close frame, and nobody who reads the answer."""
    opened.transport.pause_reading()
    opened.transport.write(b"\x88\x82\0\0\0\0\x03\xe8")
    await asyncio.sleep(dice.uniform(0.0, 0.2))
    _abort(opened)


async def _fin(opened: ClientConnection, _: random.Random) -> None:
    """The connection ends without a close frame."""
    opened.transport.close()


async def _half_message(opened: ClientConnection, dice: random.Random) -> None:
    message = client_frame(_audio(RATE).encode())
    opened.transport.write(message[: dice.randrange(1, len(message))])
    await asyncio.sleep(dice.uniform(0.0, 0.2))
    _abort(opened)


async def _silent(opened: ClientConnection, _: random.Random) -> None:
    """Half open: the connection stays, and nobody is there who reads it or answers a ping."""
    opened.transport.pause_reading()


SILENT = "silent"
Kill = Callable[[ClientConnection, random.Random], Awaitable[None]]
KILLS: dict[str, Kill] = {
    "reset": _reset,
    "close frame": _close_frame,
    "close event": _close_event,
    "close unread": _close_unread,
    "fin": _fin,
    "half message": _half_message,
    SILENT: _silent,
}


class _Few:
    """At most `most` taken within any `length` seconds."""

    def __init__(self, most: int, length: float) -> None:
        self._most = most
        self._length = length
        self._taken: list[float] = []

    def take(self) -> bool:
        """One more, if it may be."""
        now = time.monotonic()
        self._taken = [t for t in self._taken if now - t < self._length]
        if len(self._taken) < self._most:
            self._taken.append(now)
            return True
        return False


async def churn(
    url: str, length: float, *, sessions: int, seed: int, rate: int = RATE, fill: int = FILL
) -> Counter[str]:
    """Kill clients for `length` seconds, `sessions` at a time; how many died which way, or were refused. At the end
    the silent ones are still connected, for the server to find."""
    end = time.monotonic() + length
    killed: Counter[str] = Counter()
    silent = _Few(max(1, sessions // 3), 2 * PATIENCE)
    await asyncio.gather(
        *(
            _client(url, end, random.Random(f"{seed} {number}"), killed, silent, rate, fill)
            for number in range(sessions)
        )
    )
    return killed


async def _client(
    url: str, end: float, dice: random.Random, killed: Counter[str], silent: _Few, rate: int, fill: int
) -> None:
    """One client after another, until the end. `silent`: so many may be at once, or nobody else would get a place."""
    audio = _audio(rate)
    while time.monotonic() < end:
        if dice.random() < 0.1:
            await _half_handshake(url, dice)
            killed["half handshake"] += 1
            continue
        how = dice.choice(list(KILLS))
        try:
            opened = await _session(url, rate, dice.choice((0, 0, fill)))
            stop = time.monotonic() + dice.uniform(0.0, min(LONGEST, max(0.0, end - time.monotonic())))
            while time.monotonic() < stop:
                await opened.send(audio)
                await asyncio.sleep(PIECE)
            if opened.state is not State.OPEN:
                raise ConnectionClosedOK(None, None)
            if how == SILENT and not silent.take():
                how = "reset"
            await KILLS[how](opened, dice)
            killed[how] += 1
        except ConnectionClosed:
            killed["refused"] += 1
            # whoever is refused comes again later
            await asyncio.sleep(dice.uniform(0.0, 0.5))


async def _half_handshake(url: str, dice: random.Random) -> None:
    """A handshake that ends in the middle, with a reset."""
    parts = urlsplit(url)
    request = f"GET {parts.path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n".encode()
    _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request[: dice.randrange(len(request))])
    await asyncio.sleep(dice.uniform(0.0, 0.1))
    handle: socket.socket = writer.get_extra_info("socket")
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def health(url: str) -> dict[str, Any]:
    """What the worker says of itself."""
    address = f"http://{urlsplit(url).netloc}/health"

    def ask() -> dict[str, Any]:
        with urllib.request.urlopen(address, timeout=HANG) as reply:
            found: dict[str, Any] = json.load(reply)
            return found

    return await asyncio.to_thread(ask)


async def emptied(url: str) -> float:
    """Seconds until no place is taken; infinite where that takes longer than a silent client may."""
    began = time.monotonic()
    while time.monotonic() - began < 2 * PATIENCE + 10.0:
        if (await health(url))["sessions"] == 0:
            return time.monotonic() - began
        await asyncio.sleep(0.2)
    return math.inf


@asynccontextmanager
async def answered(url: str, frames: int = 2) -> AsyncIterator[ClientConnection]:
    """A session that got its answers."""
    opened = await _session(url, RATE)
    try:
        unit = (await _until(opened, "session.updated"))["session"]["metrobench"]["unit_ms"] / 1e3
        for _ in range(math.ceil(frames * unit / PIECE)):
            await opened.send(_audio(RATE))
        for _ in range(frames):
            await _until(opened, "metrobench.frame.done")
        yield opened
    finally:
        await opened.close()


async def pool(url: str) -> float:
    """Share of the KV pool in use by one fresh session after its second frame; the gauge moves only with a step."""
    async with answered(url):
        return float((await health(url))["kv_usage"])


async def refusal(url: str) -> float:
    """Seconds from the first byte of a connection to the whole refusal. Raises TimeoutError where it is let in."""
    began = time.monotonic()
    opened = await connect(url, ping_interval=None)
    event = await _until(opened, "error")
    await opened.wait_closed()
    took = time.monotonic() - began
    if opened.close_code != 1013 or "retry_after_ms" not in event["error"]["metrobench"]:
        raise ValueError(f"refused with close code {opened.close_code}: {event}")
    return took


async def examine(url: str, server: Any, length: float, sessions: int, seed: int) -> dict[str, Any]:
    """Before, the killing, and after."""
    await pool(url)
    await emptied(url)
    before, files = await pool(url), _files(server)
    killed = await churn(url, length, sessions=sessions + 2, seed=seed)
    waited = await emptied(url)
    found: dict[str, Any] = {
        "killed": dict(sorted(killed.items())),
        "seconds_until_empty": round(waited, 1) if math.isfinite(waited) else None,
        "sessions_left": (await health(url))["sessions"],
        "kv_before": before,
        "kv_after": await pool(url),
        "files_before": files,
    }
    await emptied(url)
    found["files_after"] = await _files_after(server, files)
    async with contextlib.AsyncExitStack() as all_places:
        await asyncio.gather(*(all_places.enter_async_context(answered(url)) for _ in range(sessions)))
        found["places_again"] = sessions
        found["refusal_ms"] = round(1e3 * await refusal(url), 1)
    return found


def leaks(found: dict[str, Any]) -> list[str]:
    """What is wrong, in words."""
    wrong = []
    if found["sessions_left"]:
        wrong.append(f"{found['sessions_left']} places are still taken")
    if not math.isclose(found["kv_after"], found["kv_before"], abs_tol=1e-9):
        wrong.append(f"one session used {found['kv_before']:.4%} of the pool before and {found['kv_after']:.4%} after")
    if found["files_after"] > found["files_before"]:
        wrong.append(f"{found['files_after'] - found['files_before']} more files are open than before")
    if found["refusal_ms"] > 1e3 * REFUSAL:
        wrong.append(f"a refusal took {found['refusal_ms']} ms")
    return wrong


async def _files_after(server: Any, before: int) -> int:
    """Open files once there are no more than before, or after the longest that a handshake or a silent client may
    last."""
    began = time.monotonic()
    while (files := _files(server)) > before and time.monotonic() - began < 2 * PATIENCE + 10.0:
        await asyncio.sleep(0.5)
    return files


def _files(server: Any) -> int:
    """Open files of all processes of the server."""
    import psutil

    tree = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    return sum(each.num_fds() for each in tree)


@contextmanager
def serving(model: str, sessions: int, *more: str) -> Iterator[tuple[str, Any]]:
    """`metrobench serve` on a free port with so many places; its address and process."""
    asked = ("--model", model, "--port", "0", "--max-sessions", str(sessions), "--admission", f"static:{sessions}")
    command = [sys.executable, "-m", "metrobench", "serve", *asked, *more]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        said = ""
        for line in server.stdout:
            said += line
            if address := re.search(r"listening on (ws://\S+)", line):
                yield address[1], server
                return
        sys.exit(f"metrobench serve ended with exit code {server.wait()}: {said}")
    finally:
        server.terminate()
        server.wait(HANG)


def main() -> None:
    """Serve, kill, look."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--sessions", type=int, default=12, help="places of the worker")
    parser.add_argument("--model", default="smoke")
    parser.add_argument("--order", default="arrival", help="the worker's, for example deadline:4")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    # a pool that leaves no room for leaked blocks
    more = ("--pool-tokens", str(256 * (asked.sessions + 1)), "--order", asked.order)
    with serving(asked.model, asked.sessions, *more) as (url, server):
        found = asyncio.run(examine(url, server, 60.0 * asked.minutes, asked.sessions, asked.seed))
    wrong = leaks(found)
    print(json.dumps(found | {"leaks": wrong}, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
