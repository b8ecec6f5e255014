"""Sockets: who gets in, who is told what when it ends, and that nothing a client sends can break it."""

import asyncio
import base64
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.churn_kill import churn
from metrobench.worker.gateway import MAX_MESSAGE
from metrobench.worker.turnstile import BY_ARRIVAL, Order
from tests.worker.rooms import Room, room
from tests.worker.test_conversation import FORMAT, LOUD

HANG = 30


def scene(play: Callable[[Room], Coroutine[Any, Any, None]], max_sessions: int = 4, **how: Any) -> None:
    async def stage() -> None:
        async with asyncio.timeout(HANG), room(max_sessions, **how) as place:
            await play(place)

    asyncio.run(stage())


async def event(socket: ClientConnection) -> dict[str, Any]:
    return json.loads(await socket.recv())  # type: ignore[no-any-return]


async def opened(url: str) -> ClientConnection:
    socket = await connect(url, ping_interval=None, max_size=None)
    assert (await event(socket))["type"] == "session.created"
    await socket.send(json.dumps({"type": "session.update", "session": {"audio": {"input": {"format": FORMAT}}}}))
    assert (await event(socket))["type"] == "session.updated"
    return socket


async def close_code(socket: ClientConnection) -> int | None:
    try:
        while True:
            await socket.recv()
    except ConnectionClosed:
        return socket.close_code


def append(pcm: bytes) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})


async def get(url: str) -> tuple[int, bytes]:
    def ask() -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(url, timeout=HANG) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    return await asyncio.to_thread(ask)


def test_a_client_is_served_frame_by_frame():
    async def play(place: Room) -> None:
        async with await opened(place.url) as socket:
            await socket.send(append(LOUD * 3))
            frames = [(await event(socket))["frame"] for _ in range(3)]
        assert frames == [0, 1, 2]

    scene(play)


def test_health_and_everything_else():
    async def play(place: Room) -> None:
        base = f"http://127.0.0.1:{place.port}"
        assert await get(f"{base}/health") == (200, b'{"status":"ok","sessions":0,"kv_usage":null}')
        async with await opened(place.url):
            place.engine.stats.kv_usage = 0.25
            assert await get(f"{base}/health") == (200, b'{"status":"ok","sessions":1,"kv_usage":0.25}')
        status, body = await get(f"{base}/")
        assert status == 404
        assert b"/v1/realtime" in body
        place.gateway.engine_died("gone")
        assert (await get(f"{base}/health"))[0] == 503

    scene(play)


def test_the_query_does_not_matter():
    async def play(place: Room) -> None:
        async with await opened(place.url + "?model=whatever"):
            pass

    scene(play)


def test_one_session_too_many_is_refused_and_a_freed_place_is_given_again():
    async def play(place: Room) -> None:
        sockets = [await opened(place.url) for _ in range(2)]
        async with connect(place.url) as extra:
            assert (await event(extra))["error"]["code"] == "session_limit"
            assert await close_code(extra) == 1013
        await sockets[0].close()
        while len(place.gateway.sessions) > 1:
            await asyncio.sleep(0.01)
        async with await opened(place.url):
            pass
        await sockets[1].close()

    scene(play, max_sessions=2)


def test_a_vanished_client_frees_its_session():
    async def play(place: Room) -> None:
        socket = await opened(place.url)
        place.engine.gate.clear()
        await socket.send(append(LOUD))
        while not place.engine.chunks.get("session-1"):
            await asyncio.sleep(0.01)
        socket.transport.abort()
        while place.engine.ended != ["session-1"]:
            await asyncio.sleep(0.01)
        assert place.gateway.sessions == []

    scene(play)


def test_a_client_whose_machine_vanished_frees_its_session():
    async def play(place: Room) -> None:
        socket = await opened(place.url)
        await socket.send(append(LOUD))
        assert (await event(socket))["frame"] == 0
        # it neither says nor hears anything any more
        socket.transport.pause_reading()
        while place.engine.ended != ["session-1"] or place.gateway.sessions:
            await asyncio.sleep(0.01)

    scene(play, patience=0.1)


def test_a_client_that_is_silent_and_answers_pings_keeps_its_session():
    async def play(place: Room) -> None:
        async with await opened(place.url) as socket:
            await asyncio.sleep(0.5)
            await socket.send(append(LOUD))
            assert (await event(socket))["frame"] == 0

    scene(play, patience=0.1)


@pytest.mark.parametrize("order", [BY_ARRIVAL, Order(1), Order(1, 0.01)])
def test_however_clients_are_killed_every_place_and_every_request_comes_back(order: Order):
    async def play(place: Room) -> None:
        kills = await churn(place.url, 1.5, sessions=4, seed=7, rate=FORMAT["rate"], fill=50)
        assert kills.total() > 0
        while place.gateway.sessions or set(place.engine.ended) != set(place.engine.chunks):
            await asyncio.sleep(0.01)
        sockets = [await opened(place.url) for _ in range(4)]
        for socket in sockets:
            await socket.send(append(LOUD))
        for socket in sockets:
            assert (await event(socket))["frame"] == 0
            await socket.close()

    scene(play, patience=0.2, order=order)


def test_a_dead_engine_is_told_to_everybody():
    async def play(place: Room) -> None:
        sockets = [await opened(place.url) for _ in range(3)]
        place.gateway.engine_died("the engine process was killed by signal 9")
        for socket in sockets:
            error = (await event(socket))["error"]
            assert (error["code"], error["message"]) == ("engine_dead", "the engine process was killed by signal 9")
            assert await close_code(socket) == 1011
        async with connect(place.url) as late:
            assert (await event(late))["error"]["code"] == "engine_dead"
            assert await close_code(late) == 1011

    scene(play)


def test_a_client_that_keeps_sending_still_gets_its_close():
    async def play(place: Room) -> None:
        socket = await opened(place.url)

        async def stream() -> None:
            try:
                while True:
                    await socket.send(append(LOUD[:640]))
                    await asyncio.sleep(0.001)
            except ConnectionClosed:
                pass

        sending = asyncio.create_task(stream())
        await asyncio.sleep(0.05)
        place.gateway.engine_died("gone")
        assert await close_code(socket) == 1011
        await sending

    scene(play)


def test_binary_is_refused_and_the_session_lives():
    async def play(place: Room) -> None:
        async with await opened(place.url) as socket:
            await socket.send(LOUD)
            assert (await event(socket))["error"]["code"] == "invalid_event"
            await socket.send(append(LOUD))
            assert (await event(socket))["frame"] == 0

    scene(play)


def test_a_message_in_fragments_is_put_together():
    async def play(place: Room) -> None:
        async with await opened(place.url) as socket:
            message = append(LOUD)
            await socket.send([message[:10], message[10:50], message[50:]])
            assert (await event(socket))["frame"] == 0

    scene(play)


@pytest.mark.parametrize("fragments", [1, 8])
def test_a_giant_message_ends_the_session(fragments: int):
    async def play(place: Room) -> None:
        socket = await opened(place.url)
        part = "x" * (MAX_MESSAGE // fragments + 1024)
        with contextlib.suppress(ConnectionClosed):
            await socket.send([part] * fragments if fragments > 1 else part)
        assert await close_code(socket) in (1009, 1006)
        async with await opened(place.url):
            pass

    scene(play)


def test_a_ping_is_answered():
    async def play(place: Room) -> None:
        async with await opened(place.url) as socket:
            await (await socket.ping())

    scene(play)


@pytest.mark.parametrize(
    "noise", [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"POST /v1/realtime HTTP/1.1\r\n\r\n"]
)
def test_noise_on_the_port_harms_nobody(noise: bytes):
    async def play(place: Room) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(noise)
        await writer.drain()
        writer.write_eof()
        await reader.read()
        writer.close()
        async with await opened(place.url):
            pass

    scene(play)


def test_a_taken_port_is_an_error():
    async def play(place: Room) -> None:
        with pytest.raises(OSError, match="address already in use"):
            await place.gateway.start("127.0.0.1", place.port)

    scene(play)
