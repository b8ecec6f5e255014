"""Several capacity records in one table: the figures are those of the records."""

from __future__ import annotations

from typing import Any

from metrobench.environment import describe_machine
from metrobench.records import SCHEMA, ProbeRecord, Record
from metrobench.report.comparison import table


def probe(sessions: int, outcome: str, p99: float) -> ProbeRecord:
    verdict: dict[str, Any] = {"latency": {"p50": 0.05, "p99": p99}}
    nothing: dict[str, Any] = dict.fromkeys(("start_seconds", "fill_seconds", "waiting_peak", "steal"))
    return ProbeRecord(
        index=1,
        sessions=sessions,
        folder=".",
        seed=1,
        started="",
        outcome=outcome,
        reasons=[],
        span_seconds=15.0,
        wall_seconds=20.0,
        verdict=verdict,
        cpu_shares={},
        kv_peak=0.24,
        close_reasons=[],
        prefix_hit_tokens=None,
        server={},
        **nothing,
    )


def record(kv: str, result: dict[str, Any] | None) -> Record:
    return Record(
        schema=SCHEMA,
        kind="capacity",
        status="failed" if result is None else "complete",
        created="",
        command=[],
        environment=describe_machine(),
        profile={"name": "smoke"},
        setting={"kv": kv},
        seed=1,
        stand_in=True,
        probes=[probe(90, "passed", 0.5), probe(90, "passed", 0.8), probe(98, "failed", 2.0)],
        result=result,
    )


def test_each_policy_has_its_interval_and_the_worst_passed_run_at_lo():
    found = {"mscs": {"lo": 90, "hi": 98, "stop": "converged", "runs": 5}, "limited_by": {"limit": "kv"}}
    head, first, second = table([record("window:1024+16", found), record("unbounded", None)]).strip().splitlines()
    assert head.split() == ["policy", "MSCS", "limited", "by", "p50", "p99", "kv"]
    assert first.split() == ["window:1024+16", "[90,", "98]", "kv", "50", "ms", "800", "ms", "24", "%"]
    assert second.split() == ["unbounded", "failed"]
    assert all(len(line) <= 80 for line in (head, first, second))
