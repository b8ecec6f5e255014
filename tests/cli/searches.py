"""A capacity search whose runs take virtual time: one queue of known capacity, judged as a real run would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from metrobench import probe as probe_module
from metrobench.cli import bench as bench_module
from metrobench.cli import capacity as capacity_module
from metrobench.corpus.stream import build_table
from metrobench.measure.verdict import Verdict, judge
from metrobench.probe import Setting, Watch
from metrobench.records import ProbeRecord
from tests.virtual_servers import queue_run

URL = "ws://127.0.0.1:9/v1/realtime"
"""Nobody is there, and nobody is asked."""
decoded = cache(build_table)
"""The same audio for every command: decoded once."""


@dataclass
class VirtualRuns:
    """Stands in for `probe`: a run against one queue, which takes as long as it says on a clock of its own."""

    capacity: float
    start: float = 2.0
    """Seconds from the launch of the server to open sessions."""
    clock: float = 1000.0
    settings: list[tuple[int, Setting]] = field(default_factory=list)
    """Sessions and setting of each run."""
    before_end: Callable[[], None] | None = None
    works: tuple[float, ...] = ()
    """What one fixed piece of work costs in the first run, the second, ... in turn, s."""

    def install(self, monkeypatch: pytest.MonkeyPatch) -> VirtualRuns:
        """Every run of this process is virtual from now on."""
        now = SimpleNamespace(monotonic=lambda: self.clock, sleep=lambda _: None)
        monkeypatch.setattr(bench_module, "time", now)
        monkeypatch.setattr(bench_module, "build_table", decoded)
        monkeypatch.setattr(capacity_module, "time", now)
        monkeypatch.setattr(probe_module, "probe", self)
        return self

    def __call__(
        self, setting: Setting, server: Any, sessions: int, seed: int, index: int, folder: Path, watch: Watch
    ) -> tuple[ProbeRecord, Verdict]:
        self.settings.append((sessions, setting))
        plan = setting.plan(sessions)
        facts = queue_run(plan, self.capacity * plan.unit / plan.budget)
        verdict = judge(facts, plan, steal=0.0)
        self.clock += self.start + plan.budget + plan.seconds
        record = _record(index, sessions, seed, verdict, self.start, watch.interrupted())
        record.core_work = self.works[index % len(self.works)] if self.works else None
        return record, verdict


def _record(index: int, sessions: int, seed: int, verdict: Verdict, start: float, interrupted: bool) -> ProbeRecord:
    return ProbeRecord(
        index=index,
        sessions=sessions,
        folder=".",
        seed=seed,
        started="",
        outcome="interrupted" if interrupted else verdict.outcome.value,
        reasons=list(verdict.sentences),
        span_seconds=verdict.span,
        wall_seconds=0.0,
        start_seconds=start,
        fill_seconds=None,
        verdict=msgspec.to_builtins(verdict),
        cpu_shares={},
        kv_peak=None,
        waiting_peak=None,
        close_reasons=[],
        steal=0.0,
        prefix_hit_tokens=None,
        server={},
    )
