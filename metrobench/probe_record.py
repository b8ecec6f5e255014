"""What run.json says of one measured run, from its facts and telemetry."""

from __future__ import annotations

from metrobench.journal import Begun
from metrobench.measure.facts import RunFacts
from metrobench.measure.limits import Evidence
from metrobench.measure.telemetry import Row, cpu_shares, engine_latency, mean, peak
from metrobench.measure.verdict import Verdict, judge
from metrobench.measure.warnings import Warn
from metrobench.records import ProbeRecord, plain

DOUBTFUL_OTHERS = 0.12
"""CPU of other programs, in cores, above which a run is doubtful."""


def judge_run(
    begun: Begun, facts: RunFacts, rows: list[Row], *, slowdown: float | None = None, client_died: bool = False
) -> Verdict:
    """The verdict on one run, with what the telemetry (`t` from t0) says about the machine."""
    return judge(
        facts,
        begun.plan,
        steal=mean(rows, "steal"),
        others=cpu_shares(rows, begun.plan).get("others"),
        slowdown=slowdown,
        excuse_slow=begun.excuse_slow,
        client_died=client_died,
    )


def make_record(begun: Begun, folder: str, facts: RunFacts, rows: list[Row], verdict: Verdict) -> ProbeRecord:
    """What run.json says of one run; its times of start, filling and end are left open."""
    return ProbeRecord(
        index=begun.index,
        sessions=begun.plan.sessions,
        folder=folder,
        seed=begun.seed,
        started=begun.started,
        outcome=verdict.outcome.value,
        reasons=list(verdict.sentences),
        span_seconds=begun.plan.span,
        wall_seconds=0.0,
        start_seconds=None,
        fill_seconds=None,
        verdict=plain(verdict),
        cpu_shares=cpu_shares(rows, begun.plan),
        kv_peak=peak(rows, "kv_usage"),
        waiting_peak=peak(rows, "waiting"),
        close_reasons=sorted({session.reason for session in facts.sessions if session.reason}),
        steal=mean(rows, "steal"),
        prefix_hit_tokens=peak(rows, "prefix_hits"),
        server=begun.server,
        engine_latency=engine_latency(rows, begun.plan),
        kv=begun.kv,
    )


def doubts(record: ProbeRecord) -> list[Warn]:
    """The warnings that one run gives rise to."""
    found = [Warn(code) for code in record.verdict["warnings"]]
    if record.cpu_shares.get("others", 0.0) > DOUBTFUL_OTHERS:
        found.append(Warn.OTHERS_BUSY)
    if record.prefix_hit_tokens:
        found.append(Warn.PREFIX_HITS)
    return found


def evidence(record: ProbeRecord | None) -> Evidence:
    """What one run's record says about who limited it."""
    if record is None:
        return Evidence()
    front = record.server.get("front_cores") or ()
    engine = record.server.get("engine_cores") or ()
    client = record.server.get("client_cores") or ()
    return Evidence(
        engine_cpu=record.cpu_shares.get("engine"),
        front_cpu=record.cpu_shares.get("front"),
        client_cpu=record.cpu_shares.get("client"),
        front_shares_client_core=bool(set(front) & set(client)),
        engine_shares_core=bool(set(engine) & (set(front) | set(client))),
        kv_peak=record.kv_peak,
        waiting_peak=record.waiting_peak,
        engine_latency=record.engine_latency,
        close_reasons=tuple(record.close_reasons),
    )
