"""Real Moshi servers as one address, for tests."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.launch import HERE, PEERS, free_port, running, wait_up

PYTHON = PEERS / "moshi" / "bin" / "python"
WEIGHTS = PEERS / "tiny-moshi"
ROUTE = "/api/chat"
BAD_REQUEST = 400
"""The route is a WebSocket's, so that is the answer to plain HTTP."""


@contextlib.contextmanager
def moshi_servers(count: int, log: Path) -> Iterator[str]:
    """The address of a front with `count` servers behind it; skipped where they are not installed."""
    if not (PYTHON.exists() and (WEIGHTS / "moshi.safetensors").exists()):
        pytest.skip("no Moshi server here: make test-peers installs it")
    ports = [free_port() for _ in range(count)]
    front = free_port()
    share = [sys.executable, str(HERE / "front.py"), str(front), *map(str, ports)]
    with running([*map(server_command, ports), share], log, NO_TORCH_COMPILE="1") as processes:
        for port, process in zip((*ports, front), processes, strict=True):
            wait_up(port, ROUTE, BAD_REQUEST, process, log)
        yield f"ws://127.0.0.1:{front}{ROUTE}"


def server_command(port: int) -> list[str]:
    """Command line of one server."""
    weights = {"--config-path": "config.json", "--moshi-weight": "moshi.safetensors"}
    weights |= {"--mimi-weight": "mimi.safetensors", "--tokenizer": "spm.model"}
    files = [word for option, name in weights.items() for word in (option, str(WEIGHTS / name))]
    where = ["--device", "cpu", "--static", "none", "--host", "127.0.0.1", "--port", str(port)]
    return [str(PYTHON), str(HERE / "serve_moshi.py"), *where, *files]
