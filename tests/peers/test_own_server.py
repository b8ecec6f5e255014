"""metrobench's own `serve`, as a client of the OpenAI Realtime API meets it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.launch import free_port, metrobench, running, wait_up
from tests.worker.test_openai_client import check, converse

pytestmark = [pytest.mark.peers, pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The embedded worker, served."""
    port, log = free_port(), tmp_path_factory.mktemp("serve") / "log"
    command = [sys.executable, "-m", "metrobench", "serve", "--model", "minicpm-o", "--port", str(port)]
    with running([command], log) as (process,):
        wait_up(port, "/health", 200, process, log)
        yield f"ws://127.0.0.1:{port}/v1/realtime"


def test_the_openai_package_completes_a_conversation(server: str) -> None:
    check(*asyncio.run(asyncio.wait_for(converse(server), 60)))


def test_the_openai_protocol_sees_its_turns_end(server: str, tmp_path: Path) -> None:
    """The stand-in answers in text, and for as long as the user is silent: late, but complete."""
    address = ["--endpoint", server, "--served-model", "any", "--out", str(tmp_path)]
    code, record = metrobench("check", "--protocol", "openai", *address)
    (probe,) = record["probes"]
    assert code == 0
    assert record["setting"]["frame_class"] == "D"
    assert probe["verdict"]["misses"]["met"] + probe["verdict"]["misses"]["late"] >= 1
    assert probe["verdict"]["misses"]["early"] == 0


def test_auto_finds_its_own_protocol(server: str, tmp_path: Path) -> None:
    code, record = metrobench("check", "--protocol", "auto", "--endpoint", server, "--out", str(tmp_path))
    assert code == 0
    assert record["setting"]["protocol"] == "realtime"
