from __future__ import annotations

import socket
from collections.abc import Iterator

import msgspec
import pytest

from metrobench.load.link import Command, Link
from metrobench.load.spec import LoadEvent


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield Link(theirs), ours
    ours.close()


def test_first_line_then_commands(ends: tuple[Link, socket.socket]) -> None:
    link, parent = ends
    parent.sendall(b'{"a":1}\n' + msgspec.json.encode(Command("extend", 7)) + b"\n" + b'{"kind":"st')
    assert link.read_line() == b'{"a":1}'
    parent.sendall(b'op"}\n')
    commands = link.commands()
    assert commands is not None
    assert [(command.kind, command.frames) for command in commands] == [("extend", 7), ("stop", 0)]
    assert link.commands() == []


def test_parent_that_is_gone(ends: tuple[Link, socket.socket]) -> None:
    link, parent = ends
    parent.close()
    assert link.read_line() == b""
    assert link.commands() is None


def test_parent_that_does_not_read_never_blocks_and_loses_only_progress(ends: tuple[Link, socket.socket]) -> None:
    link, parent = ends
    parent.sendall(b"{}\n")
    link.read_line()
    for _ in range(20_000):
        link.tell(LoadEvent("progress", message="x" * 100))
    link.tell(LoadEvent("stopped", message="finished"))
    data = b""
    while not data.endswith(b'"stopped","message":"finished"}\n'):
        data += parent.recv(1 << 20)
        link.flush()
    kinds = [msgspec.json.decode(line, type=LoadEvent).kind for line in data.splitlines()]
    assert kinds[-1] == "stopped"
    assert 0 < kinds.count("progress") < 20_000
