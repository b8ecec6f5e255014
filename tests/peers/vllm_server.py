"""vLLM's own API server with a tiny Voxtral, or a tiny Qwen3-ASR, for tests."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.launch import PEERS, free_port, running, wait_up

VOXTRAL, QWEN3_ASR = PEERS / "tiny-voxtral", PEERS / "tiny-qwen3asr"
TORCHVISION = PEERS / "torchvision"
"""On PYTHONPATH for Qwen3-ASR, whose processor imports it."""
POSITIONS = 512
"""Positions of a session: 39 of the prompt, and one for each frame."""
SEGMENT_POSITIONS = 16_384
"""The same for Qwen3-ASR: 65 for the audio of a segment, and up to 64 for its words, so 10 minutes. A session that
needs more does not end by itself: it ends the engine, and everybody's (seen at 2,048, after 78 s)."""
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
    if not (VOXTRAL / "consolidated.safetensors").exists():
        pytest.skip("no Voxtral here: make test-peers makes one")
    mistral = ("--tokenizer-mode", "mistral", "--config-format", "mistral")
    with _serving(VOXTRAL, positions, (*mistral, *arguments), log) as url:
        yield url


@contextlib.contextmanager
def qwen3_asr_server(log: Path) -> Iterator[str]:
    """The address of a server that transcribes segments; its words are noise."""
    if not ((QWEN3_ASR / "config.json").exists() and (TORCHVISION / "sitecustomize.py").exists()):
        pytest.skip("no Qwen3-ASR here: make test-peers makes one")
    chosen = ("--hf-overrides", '{"architectures":["Qwen3ASRRealtimeGeneration"]}')
    path = {"PYTHONPATH": os.pathsep.join([str(TORCHVISION), os.environ.get("PYTHONPATH", "")])}
    with _serving(QWEN3_ASR, SEGMENT_POSITIONS, ("--load-format", "dummy", *chosen), log, **path) as url:
        yield url


@contextlib.contextmanager
def _serving(model: Path, positions: int, arguments: tuple[str, ...], log: Path, **environment: str) -> Iterator[str]:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("no vLLM here: make test-peers installs it")
    port = free_port()
    command = server_command(model, port, positions, arguments)
    with running([command], log, **_ENVIRONMENT, **environment) as (process,):
        wait_up(port, "/health", 200, process, log)
        yield f"ws://127.0.0.1:{port}/v1/realtime"


def server_command(model: Path, port: int, positions: int, arguments: tuple[str, ...]) -> list[str]:
    """Command line of the server: by its module, as `vllm serve` looks for a package named vllm, and this one is
    vllm-cpu."""
    small = ["--enforce-eager", "--max-num-seqs", str(SESSIONS), "--block-size", "32"]
    where = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "tiny"]
    length = ["--max-model-len", str(positions)]
    server = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    return [*server, *where, *small, *length, *arguments]
