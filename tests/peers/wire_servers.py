"""The wire layers of sglang-omni and vllm-omni over engines that are none, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.launch import HERE, PEERS, free_port, running, wait_up

PYTHON = PEERS / "wire" / "bin" / "python"
WHEELS = PEERS / "wire" / "wheels"


@contextlib.contextmanager
def wire_server(program: str, log: Path, *arguments: int, page: str, status: int) -> Iterator[str]:
    """The address of a server; skipped where its package is not installed. It is up when `page` answers `status`."""
    if not (PYTHON.exists() and WHEELS.is_dir()):
        pytest.skip("no wire layers here: make test-peers installs them")
    port = free_port()
    command = [str(PYTHON), str(HERE / program), str(WHEELS), str(port), *map(str, arguments)]
    with running([command], log) as (process,):
        wait_up(port, page, status, process, log)
        yield f"ws://127.0.0.1:{port}/v1/realtime"


def sglang_omni(log: Path, work_ms: int, connections: int) -> contextlib.AbstractContextManager[str]:
    """Units of 80 ms, one after the other; each takes `work_ms`."""
    page = "/v1/realtime/capabilities"
    return wire_server("serve_sglang_omni.py", log, work_ms, connections, page=page, status=200)


def vllm_omni(log: Path, unit_ms: int, sessions: int) -> contextlib.AbstractContextManager[str]:
    """Listens to units of `unit_ms`."""
    return wire_server("serve_vllm_omni.py", log, unit_ms, sessions, page="/", status=404)
