"""Messages between the command line, the fork server and a worker: JSON datagrams over a socket pair."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from typing import Any, TypeVar

import msgspec

MAX_MESSAGE = 160 * 1024

M = TypeVar("M")


class Preloaded(msgspec.Struct, tag=True, frozen=True):
    """Fork server: vLLM is loaded."""

    seconds: float
    threads: int
    vllm_version: str


class Failed(msgspec.Struct, tag=True, frozen=True):
    """Fork server or worker: it cannot start, and why."""

    message: str
    hint: str = ""
    usage: bool = False
    """What was asked for is at fault, not the machine."""


class Launch(msgspec.Struct, tag=True, frozen=True):
    """To the fork server: fork a worker. Two descriptors come back with `Forked`."""

    number: int
    """Comes back with the answer, so that an answer nobody waited for is not taken for another's."""
    spec: msgspec.Raw


class Forked(msgspec.Struct, tag=True, frozen=True):
    """Fork server: the worker's pid; its channel and its telemetry memory ride along."""

    number: int
    pid: int


class Kill(msgspec.Struct, tag=True, frozen=True):
    """To the fork server: kill this worker whole, reap it, remove its folder."""

    number: int
    pid: int


class Killed(msgspec.Struct, tag=True, frozen=True):
    """Fork server: done. `ended` says how the worker's first process ended, `left` what could not be removed."""

    number: int
    ended: str
    left: str = ""


class Ready(msgspec.Struct, tag=True, frozen=True):
    """Worker: it serves. `info` is a WorkerInfo."""

    info: msgspec.Raw


class Dead(msgspec.Struct, tag=True, frozen=True):
    """Worker: its engine is dead, and why."""

    reason: str


FromServer = Preloaded | Failed | Forked | Killed
ToServer = Launch | Kill
FromWorker = Ready | Failed | Dead


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep message borders."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: msgspec.Struct, fds: tuple[int, ...] = ()) -> None:
    """Send one message. Raises OSError when the other end is gone."""
    data = msgspec.json.encode(message)
    if fds:
        socket.send_fds(end, [data], fds)
    else:
        end.send(data)


def receive(end: socket.socket, kind: Any, timeout: float | None) -> tuple[Any, list[int]] | None:
    """One message of the union `kind` and its descriptors; None when the other end closed.

    Raises TimeoutError after `timeout` seconds without a message.
    """
    if timeout is not None and not wait_readable(end, timeout):
        raise TimeoutError
    try:
        data, fds, _, _ = socket.recv_fds(end, MAX_MESSAGE, 4)
    except ConnectionError:
        return None
    if not data:
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        return None
    return msgspec.json.decode(data, type=kind), fds


def wait_readable(end: socket.socket, timeout: float) -> bool:
    """True as soon as a message or the end of the stream is there."""
    poller = select.poll()
    poller.register(end, select.POLLIN)
    return bool(poller.poll(max(0, timeout) * 1000))
