"""Telemetry of one run: rows by TELEMETRY_FIELDS, null where a source does not exist."""

from __future__ import annotations

from collections.abc import Sequence

from metrobench.measure.plan import Plan

Row = dict[str, float | None]

PROCESSES = ("engine", "front", "client", "parent")
"""Whose CPU is recorded, apart from that of the whole machine."""


def since(rows: Sequence[Row], t0: float | None) -> list[Row]:
    """The samples with `t` counted from t0 (the first sample where the run never started)."""
    origin = t0 if t0 is not None else (rows[0]["t"] if rows else None)
    return [row | {"t": t - origin} for row in rows if (t := row["t"]) is not None and origin is not None]


def cpu_shares(rows: Sequence[Row], plan: Plan) -> dict[str, float]:
    """Mean CPU over the measured span, in cores, of each process that could be seen; `others`: of everything else."""
    begin, end = _measured(plan)
    shares = {}
    for name in (*PROCESSES, "machine"):
        pairs = [(row.get("t"), row.get(f"{name}_cpu")) for row in rows]
        seen = [(t, cpu) for t, cpu in pairs if t is not None and cpu is not None and begin <= t <= end]
        if len(seen) >= 2 and seen[-1][0] > seen[0][0]:
            shares[name] = round((seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]), 3)
    machine = shares.pop("machine", None)
    if machine is not None and set(PROCESSES) <= set(shares):
        shares["others"] = round(max(0.0, machine - sum(shares.values())), 3)
    return shares


def engine_latency(rows: Sequence[Row], plan: Plan) -> float | None:
    """Mean seconds that a frame of the measured span was in the engine's hands; None: not seen."""
    begin, end = _measured(plan)
    seen = [
        (frames, spent)
        for row in rows
        if (t := row.get("t")) is not None and begin <= t <= end
        if (frames := row.get("frames")) is not None and (spent := row.get("engine_seconds")) is not None
    ]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return None
    return round((seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]), 6)


def _measured(plan: Plan) -> tuple[float, float]:
    begin = plan.cut_frames * plan.unit
    return begin, begin + plan.span + plan.budget


def peak(rows: Sequence[Row], name: str) -> float | None:
    """Largest value of one field; None: never seen."""
    return max(_seen(rows, name), default=None)


def mean(rows: Sequence[Row], name: str) -> float | None:
    """Mean of one field; None: never seen."""
    values = _seen(rows, name)
    return sum(values) / len(values) if values else None


def _seen(rows: Sequence[Row], name: str) -> list[float]:
    return [value for row in rows if (value := row.get(name)) is not None]
