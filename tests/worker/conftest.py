"""One fork server for all tests that need vLLM: loading takes seconds, a fresh worker does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metrobench.policy import parse_policy
from metrobench.profiles import load_profile
from metrobench.worker.launcher import ForkServer, Worker
from metrobench.worker.spec import STANDIN, WorkerSpec

Launch = Callable[..., Worker]


@pytest.fixture(scope="session")
def forkserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with ForkServer(tmp_path_factory.mktemp("forkserver") / "log") as server:
        yield server


@pytest.fixture
def launch(forkserver: ForkServer, tmp_path: Path) -> Iterator[Launch]:
    """Launch workers, of the smoke profile unless another is given; they are killed afterwards."""
    workers: list[Worker] = []

    def start(kv: str | None = None, **given: Any) -> Worker:
        profile = given.pop("profile", None) or load_profile("smoke")
        settings: dict[str, Any] = {
            "max_sessions": 8,
            "pool_tokens": 8192,
            "weights": STANDIN,
            "seed": 3,
            "front_cores": None,
            "engine_cores": None,
            "log": tmp_path / "worker.log",
        }
        policy = parse_policy(kv or profile.kv, profile.stand_in.block_size)
        worker = forkserver.launch(WorkerSpec(profile=profile, policy=policy, **(settings | given)))
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.kill()


@pytest.fixture
def worker(launch: Launch) -> Worker:
    return launch()
