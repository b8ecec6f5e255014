"""What limited a capacity: latency and growth first, then CPU shares, KV and lag."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from metrobench.measure.collapse import Kind
from metrobench.measure.verdict import Outcome, Reason, Verdict
from metrobench.units import percent, seconds

FULL = 0.85
"""CPU share above which a core counts as full. The start of a run dilutes it."""
KV_FULL = 0.95
"""Share of the KV pool in use above which it counts as full."""
MOSTLY = 0.5
"""Share of the frames' mean latency from which on the part that takes it is what limits."""
NEAR_POSITIONS = 0.98
"""Share of the positions of a request in use above which they count as used up."""


class Limit(StrEnum):
    """The part that gave out first."""

    COMPUTE = "compute"
    KV = "kv"
    POSITIONS = "positions"
    GATEWAY = "gateway"
    CLIENT = "client"
    UNKNOWN = "unknown"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded beside the frames of the run that failed. None: not visible from here."""

    engine_cpu: float | None = None
    """CPU seconds per second of the engine process in the measured span."""
    front_cpu: float | None = None
    """The same of the gateway and front-end process."""
    client_cpu: float | None = None
    """The same of the load process."""
    front_shares_client_core: bool = False
    """Gateway and load process ran on one core."""
    engine_shares_core: bool = False
    """The engine had to share its core with gateway or client."""
    kv_peak: float | None = None
    """Largest share of the KV pool in use (the gauge falls while preempted sessions starve: the peak counts)."""
    waiting_peak: float | None = None
    """Most requests that waited in the engine, paused streaming sessions not counted."""
    engine_latency: float | None = None
    """Mean seconds that a frame was in the engine's hands. The process of an engine on a GPU may rest while the GPU
    works: its CPU share alone says little."""
    positions_share: float | None = None
    """Largest session's tokens as a share of the positions it may reach."""
    close_reasons: tuple[str, ...] = ()
    """Words of the server about refused and closed sessions."""


class LimitedBy(msgspec.Struct, frozen=True):
    """The finding."""

    limit: Limit
    """The part that gave out first."""
    why: str
    """One sentence with the figures it rests on."""


def limited_by(failed: Verdict | None, evidence: Evidence, passed: Verdict | None = None) -> LimitedBy:
    """What limited a search: `failed` is the run nearest above the edge, `passed` the one nearest below it."""
    if failed is None:
        return LimitedBy(Limit.UNKNOWN, "nothing failed, so nothing is known to limit")
    return (
        _client(failed)
        or _positions(evidence)
        or _pool(evidence)
        or _refused(failed, evidence)
        or _kv(failed, evidence)
        or _died(failed, evidence)
        or _queue(failed, evidence, passed)
    )


def _client(failed: Verdict) -> LimitedBy | None:
    if failed.outcome is Outcome.VOID and {Reason.CLIENT_DECIDES, Reason.CLIENT_LAG} & set(failed.reasons):
        return LimitedBy(Limit.CLIENT, "the load process could not keep its own schedule")
    return None


def _positions(evidence: Evidence) -> LimitedBy | None:
    if any("context_exhausted" in reason for reason in evidence.close_reasons):
        return LimitedBy(Limit.POSITIONS, "sessions were closed because their context was used up")
    if evidence.positions_share is not None and evidence.positions_share >= NEAR_POSITIONS:
        return LimitedBy(Limit.POSITIONS, f"a session had used {percent(evidence.positions_share, 0)} of its positions")
    return None


def _pool(evidence: Evidence) -> LimitedBy | None:
    words = next((reason for reason in evidence.close_reasons if "kv_limit" in reason or "kv_exhausted" in reason), "")
    return LimitedBy(Limit.KV, f"the server takes no more than its KV pool holds ({words})") if words else None


def _refused(failed: Verdict, evidence: Evidence) -> LimitedBy | None:
    if Reason.REFUSED not in failed.reasons:
        return None
    return LimitedBy(Limit.GATEWAY, f"the server refused {failed.misses.refused} sessions ({_server_words(evidence)})")


def _kv(failed: Verdict, evidence: Evidence) -> LimitedBy | None:
    peak = evidence.kv_peak
    if peak is None or peak < KV_FULL:
        return None
    if failed.collapse.kind in (Kind.STALL, Kind.STARVATION):
        return LimitedBy(Limit.KV, f"{failed.collapse.kind.value} with {percent(peak, 0)} of the KV pool in use")
    if evidence.waiting_peak:
        return LimitedBy(Limit.KV, f"requests waited with {percent(peak, 0)} of the KV pool in use")
    return None


def _died(failed: Verdict, evidence: Evidence) -> LimitedBy | None:
    """Connections that closed are no sign of load."""
    if failed.collapse.kind not in (Kind.ENGINE_DEATH, Kind.SESSION_DEATH):
        return None
    return LimitedBy(Limit.UNKNOWN, f"the server closed {failed.misses.died} sessions ({_server_words(evidence)})")


def _queue(failed: Verdict, evidence: Evidence, passed: Verdict | None) -> LimitedBy:
    """Latency that grew or passed the budget: whose core was full?"""
    engine, front, client = evidence.engine_cpu, evidence.front_cpu, evidence.client_cpu
    behind = _latency_words(failed, passed)
    if engine is None:
        return LimitedBy(Limit.UNKNOWN, f"{behind}; the server's CPU is not visible from here")
    beside = sum(share for share in (front, client if evidence.front_shares_client_core else None) if share)
    shares = f"engine core {percent(engine, 0)}, gateway {_share(front)}, client {_share(client)}"
    if evidence.engine_shares_core and engine + beside >= FULL:
        return LimitedBy(Limit.UNKNOWN, f"{behind}; engine, gateway and client share one full core ({shares})")
    if (inside := _inside(failed, evidence)) is not None:
        return LimitedBy(Limit.COMPUTE, f"{behind}; {inside} ({shares})")
    if engine >= FULL and beside >= FULL:
        return LimitedBy(Limit.UNKNOWN, f"{behind}; the engine's core and the core beside it were both full ({shares})")
    if engine >= FULL:
        return LimitedBy(Limit.COMPUTE, f"{behind}; {shares}")
    if beside >= FULL:
        part = Limit.CLIENT if evidence.front_shares_client_core and (client or 0.0) > (front or 0.0) else Limit.GATEWAY
        return LimitedBy(part, f"{behind}; {shares}")
    return LimitedBy(Limit.UNKNOWN, f"{behind}, with no core full ({shares})")


def _inside(failed: Verdict, evidence: Evidence) -> str | None:
    """In words, that the engine has a frame for most of its latency; None: it has not, or that is not known."""
    mine, whole = evidence.engine_latency, failed.latency.mean
    if mine is None or not whole or mine < MOSTLY * whole:
        return None
    return f"the engine has a frame for {seconds(min(mine, whole))} of {seconds(whole)} on average"


def _latency_words(failed: Verdict, passed: Verdict | None) -> str:
    growth = failed.growth.slope
    if failed.latency.p50 is not None and passed is not None and passed.latency.p50 is not None:
        words = f"median latency went from {seconds(passed.latency.p50)} to {seconds(failed.latency.p50)}"
    elif failed.latency.p50 is not None:
        words = f"median latency {seconds(failed.latency.p50)}"
    else:
        words = "latency passed the budget"
    if growth is not None and growth.lower > 0:
        words += f", growing {growth.value * 1e3:.0f} ms/s"
    return words


def _server_words(evidence: Evidence) -> str:
    return next((reason for reason in evidence.close_reasons if reason), "no reason given")


def _share(value: float | None) -> str:
    return "not visible" if value is None else percent(value, 0)
