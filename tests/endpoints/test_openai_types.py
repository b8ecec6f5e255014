"""The openai package's own types accept every event that the dialects send, and every one the scripted peers send."""

from __future__ import annotations

import asyncio
import json
from typing import Any, get_args

import pytest

from metrobench.endpoints.base import Kind
from metrobench.endpoints.registry import make_endpoint
from tests.servers.json_peers import PEERS, json_script
from tests.servers.truth import World

pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")


def members(union: Any) -> dict[str, Any]:
    """The types of a union of events by their name; `Annotated` and inner unions are looked through."""
    found: dict[str, Any] = {}
    for member in get_args(union):
        if isinstance(member, type) and "type" in getattr(member, "model_fields", {}):
            for name in get_args(member.model_fields["type"].annotation):
                found[name] = member
        elif get_args(member):
            found |= members(member)
    return found


def strict(union: Any, message: dict[str, Any]) -> None:
    pydantic.TypeAdapter(members(union)[message["type"]]).validate_python(message)


def unions(dialect: str) -> tuple[Any, Any]:
    if dialect == "openai":
        from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent

        return RealtimeClientEvent, RealtimeServerEvent
    from openai.types.beta.realtime import RealtimeClientEvent as OldClientEvent
    from openai.types.beta.realtime import RealtimeServerEvent as OldServerEvent

    return OldClientEvent, OldServerEvent


class Loop:
    """Does everything at once."""

    def call_later(self, _seconds: float, work: Any, *arguments: Any) -> None:
        work(*arguments)

    def call_at(self, _when: float, work: Any, *arguments: Any) -> None:
        work(*arguments)

    def time(self) -> float:
        return 0.0


class Transport:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, _kind: Any, message: bytes, *_: Any) -> None:
        self.sent.append(message)

    def send_close(self, *_: Any) -> None:
        pass

    def disconnect(self, *_: Any) -> None:
        pass


def talk(dialect: str, **script: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the endpoint says in a session of two turns, and what the peer answers."""
    peer = PEERS[dialect]
    endpoint = make_endpoint(dialect, "ws://h/", unit=1.0, first_ready=1.0, sample_rate=peer.rate)
    loop: asyncio.AbstractEventLoop = Loop()  # type: ignore[assignment]
    world = World(json_script(dialect, **script), loop, peer.kind)
    session, transport = peer.kind(world, 0), Transport()
    session.on_ws_connected(transport)
    said = [json.loads(message) for message in endpoint.opening(0, 0)]
    said += [json.loads(endpoint.encode_chunk(bytes(peer.rate // 25)))] * 100
    for message in said:
        session.take(message)
    return said, [json.loads(message) for message in transport.sent]


@pytest.mark.parametrize("dialect", ["openai", "openai-beta"])
def test_what_is_sent_has_the_package_s_types(dialect: str) -> None:
    client, _ = unions(dialect)
    said, _ = talk(dialect)
    for message in said[:3]:
        strict(client, message)


@pytest.mark.parametrize("dialect", ["openai", "openai-beta"])
@pytest.mark.parametrize("script", [{}, {"hollow": [(0, 0)]}, {"error_at": [(0, 0, "x")]}, {"refuse": [0]}])
def test_what_the_peers_send_has_the_package_s_types_and_is_understood(dialect: str, script: dict[str, Any]) -> None:
    _, server = unions(dialect)
    _, heard = talk(dialect, **script)
    assert heard
    decode = make_endpoint(dialect, "ws://h/", unit=1.0, first_ready=1.0, sample_rate=24_000).decoder()
    for message in heard:
        strict(server, message)
        assert decode(json.dumps(message).encode()).kind is not Kind.OTHER
