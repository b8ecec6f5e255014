"""Was it the client? Its lag, its stalls, and whether they could have changed the verdict."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from metrobench.measure.facts import LAG_EDGES, RunFacts
from metrobench.measure.frames import FrameTable, Span, healthy_lag


class Client(Struct, frozen=True):
    """How well the client kept its own schedule."""

    lag_p50: float | None
    """Median send lag of all chunks, seconds, to the upper edge of its bin; None: none recorded."""
    lag_p99: float | None
    """Its 99th percentile."""
    lag_limit: float
    """max(5 ms, 1 % of B), seconds: a p99 above it voids the run."""
    chunks: int
    """Chunks sent."""
    stalls: int
    """Times the event loop did not turn."""
    stall_longest: float
    """Longest of them, seconds."""
    lateness_max: float
    """Largest S of a measured frame, seconds."""
    lagging: bool
    """The p99 of the send lag is above its limit."""


def histogram_quantile(counts: npt.NDArray[np.int64], quantile: float) -> float | None:
    """Quantile of a histogram over LAG_EDGES: the upper edge of the bin that holds it. None: empty.

    The last bin takes everything above its lower edge.
    """
    counts = np.maximum(np.asarray(counts), 0)
    total = int(counts.sum())
    if not total:
        return None
    place = int(np.searchsorted(np.cumsum(counts), quantile * total, side="left"))
    return float(LAG_EDGES[min(place + 1, len(LAG_EDGES) - 1)])


def judge_client(facts: RunFacts, table: FrameTable, span: Span) -> Client:
    """The client's own timing in one run."""
    p99 = histogram_quantile(facts.lag_counts, 0.99)
    limit = healthy_lag(table.plan.budget)
    lengths = table.stalls[:, 1] - table.stalls[:, 0]
    return Client(
        lag_p50=histogram_quantile(facts.lag_counts, 0.5),
        lag_p99=p99,
        lag_limit=limit,
        chunks=int(np.maximum(facts.lag_counts, 0).sum()),
        stalls=len(lengths),
        stall_longest=float(lengths.max()) if len(lengths) else 0.0,
        lateness_max=float(span.lateness[span.due].max()) if span.due.any() else 0.0,
        lagging=p99 is not None and p99 > limit,
    )
