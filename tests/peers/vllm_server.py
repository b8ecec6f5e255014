"""vLLM's own API server with a tiny Voxtral, for tests."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.launch import PEERS, free_port, running, wait_up

WEIGHTS = PEERS / "tiny-voxtral"
POSITIONS = 512
"""Positions of a session: 39 of the prompt, and one for each frame."""
SESSIONS = 32
_ENVIRONMENT = {
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}


@contextlib.contextmanager
def vllm_server(log: Path, *arguments: str, positions: int = POSITIONS) -> Iterator[str]:
    """The address of a server with these arguments of vLLM beside the usual; skipped where it is not installed."""
    if importlib.util.find_spec("vllm") is None or not (WEIGHTS / "consolidated.safetensors").exists():
        pytest.skip("no vLLM with a Voxtral here: make test-peers makes one")
    port = free_port()
    with running([server_command(port, positions, arguments)], log, **_ENVIRONMENT) as (process,):
        wait_up(port, "/health", 200, process, log)
        yield f"ws://127.0.0.1:{port}/v1/realtime"


def server_command(port: int, positions: int, arguments: tuple[str, ...]) -> list[str]:
    """Command line of the server: by its module, as `vllm serve` looks for a package named vllm, and this one is
    vllm-cpu."""
    mistral = ["--tokenizer-mode", "mistral", "--config-format", "mistral"]
    small = ["--enforce-eager", "--max-num-seqs", str(SESSIONS), "--block-size", "32"]
    where = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny"]
    length = ["--max-model-len", str(positions)]
    server = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(WEIGHTS)]
    return [*server, *where, *mistral, *small, *length, *arguments]
