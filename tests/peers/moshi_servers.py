"""Real Moshi servers as one address, for tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("METROBENCH_PEERS", HERE.parents[1] / ".peers"))
PYTHON = PEERS / "moshi" / "bin" / "python"
WEIGHTS = PEERS / "tiny-moshi"
START = 120.0
"""Seconds for a server to come up on a busy machine."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def moshi_servers(count: int, log: Path) -> Iterator[str]:
    """The address of a front with `count` servers behind it; skipped where they are not installed."""
    if not (PYTHON.exists() and (WEIGHTS / "moshi.safetensors").exists()):
        pytest.skip("no Moshi server here: make test-peers installs it")
    ports = [free_port() for _ in range(count)]
    front = free_port()
    with log.open("wb") as out, contextlib.ExitStack() as stack:
        share = [sys.executable, str(HERE / "front.py"), str(front), *map(str, ports)]
        for command in [*map(server_command, ports), share]:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment())
            stack.callback(process.wait)
            stack.callback(process.kill)
        for port in (*ports, front):
            wait_up(port)
        yield f"ws://127.0.0.1:{front}/api/chat"


def server_command(port: int) -> list[str]:
    """Command line of one server."""
    weights = {"--config-path": "config.json", "--moshi-weight": "moshi.safetensors"}
    weights |= {"--mimi-weight": "mimi.safetensors", "--tokenizer": "spm.model"}
    files = [word for option, name in weights.items() for word in (option, str(WEIGHTS / name))]
    where = ["--device", "cpu", "--static", "none", "--host", "127.0.0.1", "--port", str(port)]
    return [str(PYTHON), str(HERE / "serve_moshi.py"), *where, *files]


def environment() -> dict[str, str]:
    """One thread, no model hub, no compiler."""
    return dict(os.environ, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", NO_TORCH_COMPILE="1")


def wait_up(port: int) -> None:
    """Return when a server answers: its route is a WebSocket's, so plain HTTP is a bad request."""
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/chat", timeout=1.0)
        except urllib.error.HTTPError as error:
            assert error.code == 400
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"no Moshi server within {START:g} s")
