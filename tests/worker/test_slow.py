"""The known slowdown: how much, of which steps, and that a real engine runs with it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from metrobench.errors import UsageError
from metrobench.worker.arguments import SLOW_SCHEDULER, SLOW_VARIABLE, slow_down
from metrobench.worker.launcher import Worker


class Stock:
    """A scheduler whose steps take what the clock says."""

    def schedule(self, *_: Any) -> str:
        return "scheduled"

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> str:
        return "updated"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv(SLOW_VARIABLE, f"0.4 {__name__}.Stock")
    sys.modules.pop("metrobench.worker.slow", None)
    yield importlib.import_module("metrobench.worker.slow")
    sys.modules.pop("metrobench.worker.slow", None)


def step(slow: ModuleType, monkeypatch: pytest.MonkeyPatch, tokens: int) -> float:
    """Seconds of one step of 10 s, on a clock that advances by 10 ms a look."""
    ticks = count()
    late = [0.0]
    monkeypatch.setattr(slow, "time", SimpleNamespace(perf_counter=lambda: next(ticks) * 0.01 + late[0]))
    scheduler = slow.SlowScheduler()
    assert scheduler.schedule(False) == "scheduled"
    late[0] = 10.0
    assert scheduler.update_from_output(SimpleNamespace(total_num_scheduled_tokens=tokens), None) == "updated"
    return next(ticks) * 0.01 + 10.0


def test_a_step_takes_its_share_longer(slow: ModuleType, monkeypatch: pytest.MonkeyPatch):
    assert step(slow, monkeypatch, tokens=4) == pytest.approx(14.0, abs=0.1)


def test_an_empty_step_is_left_alone(slow: ModuleType, monkeypatch: pytest.MonkeyPatch):
    assert step(slow, monkeypatch, tokens=0) == pytest.approx(10.0, abs=0.1)


def test_the_scheduler_that_would_have_run_is_the_one_slowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SLOW_VARIABLE, "")
    arguments: dict[str, Any] = {"async_scheduling": False, "scheduler_cls": "somebody.Scheduler"}
    slow_down(0.4, arguments)
    assert importlib.import_module("os").environ[SLOW_VARIABLE] == "0.4 somebody.Scheduler"
    assert arguments["scheduler_cls"] == SLOW_SCHEDULER


def test_steps_that_overlap_cannot_be_slowed():
    with pytest.raises(UsageError, match="overlap"):
        slow_down(0.4, {"async_scheduling": True})


def test_without_it_nothing_changes():
    arguments: dict[str, Any] = {"async_scheduling": True}
    slow_down(0.0, arguments)
    assert arguments == {"async_scheduling": True}


@pytest.mark.engine
@pytest.mark.parametrize("kv", ["window:128", "window:128+32"])
def test_a_slowed_worker_starts_under_either_scheduler(launch: Callable[..., Worker], kv: str):
    worker = launch(kv, slow=0.4)
    assert worker.death() is None
    assert worker.info.policy == kv
