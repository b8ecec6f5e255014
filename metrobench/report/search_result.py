"""What a capacity search found, as the record keeps it."""

from __future__ import annotations

from typing import Any

import msgspec

from metrobench.measure.limits import LimitedBy, limited_by
from metrobench.measure.verdict import Verdict
from metrobench.policy import parse_policy
from metrobench.probe_record import evidence
from metrobench.profiles import Profile
from metrobench.records import ProbeRecord, Record, plain
from metrobench.report.terminal import arithmetic
from metrobench.search.mscs import EFFORTS, Mscs, MscsSearch, Stop

Runs = list[tuple[ProbeRecord, Verdict]]
LIFETIME = 300.0
"""Seconds that sessions live in the arithmetic beside the measurement."""


def search_result(record: Record, runs: Runs, found: Mscs, guess: int | None) -> dict[str, Any]:
    """The interval, what limits it, and the arithmetic beside it."""
    return {
        "mscs": plain(found),
        "guess": guess,
        "stopped": found.stop.words if found.stop else "",
        "limited_by": plain(_limit(runs, found)),
        "arithmetic": stored_arithmetic(record, LIFETIME),
    }


def stored_arithmetic(record: Record, horizon: float) -> str | None:
    """The arithmetic beside a measurement, sessions living `horizon` seconds; None where the profile is of another
    version."""
    try:
        profile = msgspec.convert(record.profile, Profile)
    except msgspec.ValidationError:
        return None
    return arithmetic(profile, parse_policy(record.setting["kv"]), horizon)


def interrupted_search(record: Record, runs: Runs) -> Mscs:
    """The interval as the runs of a search that never ended leave it. Interrupted runs do not count."""
    search = MscsSearch(EFFORTS[record.setting["effort"]], max_sessions=record.setting["max_sessions"])
    for run, verdict in runs:
        if run.outcome != "interrupted":
            search.tell(run.sessions, verdict.outcome, narrow=verdict.narrow, transient=verdict.transient)
    search.halt(Stop.INTERRUPTED)
    return search.result()


def _limit(runs: Runs, found: Mscs) -> LimitedBy:
    """What the failed run nearest above the edge says, beside the passed one nearest below it."""
    failed = [pair for pair in runs if pair[0].outcome in ("failed", "void") and pair[0].sessions > found.lo]
    passed = [pair for pair in runs if pair[0].outcome == "passed" and pair[0].sessions <= found.lo]
    above = min(failed, key=lambda pair: (pair[0].outcome != "failed", pair[0].sessions), default=None)
    below = max(passed, key=lambda pair: pair[0].sessions, default=None)
    seen = evidence(above[0]) if above else evidence(None)
    return limited_by(above[1] if above else None, seen, below[1] if below else None)
