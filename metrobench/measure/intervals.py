"""Intervals and tests for shares: exact where runs are the sample, design-based where frames are."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from metrobench.measure.frames import Bools, Ints


class Share(Struct, frozen=True):
    """A share with a 95 % interval."""

    value: float
    """Between 0 and 1."""
    lower: float
    """Lower end."""
    upper: float
    """Upper end."""


def clopper_pearson(successes: float, trials: float, confidence: float = 0.95) -> Share:
    """Exact interval of a binomial share (Clopper and Pearson 1934). `trials` > 0; neither need be whole."""
    from scipy.special import betaincinv

    if not 0 <= successes <= trials or trials <= 0:
        raise ValueError(f"{successes} of {trials} is not a share")
    half = (1.0 - confidence) / 2.0
    lower = 0.0 if successes <= 0 else float(betaincinv(successes, trials - successes + 1.0, half))
    upper = 1.0 if successes >= trials else float(betaincinv(successes + 1.0, trials - successes, 1.0 - half))
    return Share(successes / trials, lower, upper)


def korn_graubard(hits: Bools, session: Ints, block: Ints) -> Share | None:
    """Interval of the share of `hits` among frames clustered two ways: by session and by block of time.

    All shapes (frames,). Korn and Graubard 1998: the exact interval at the effective sample size; its variance is the
    two-way one of Cameron, Gelbach and Miller 2011. Where no variance is seen (no hit, or nothing but hits) the
    effective size is the number of frames, so the interval is then too narrow. Descriptive only. None: no frames.
    """
    n = len(hits)
    if not n:
        return None
    p = float(hits.mean())
    residual = hits - p
    variance = _two_way_variance(residual, session, block) / n**2
    if p in (0.0, 1.0) or variance <= 0.0:
        return clopper_pearson(float(hits.sum()), float(n))
    effective = min(p * (1.0 - p) / variance * _df_ratio(n, session, block), float(n))
    effective = max(effective, 1.0)
    share = clopper_pearson(p * effective, effective)
    return Share(p, min(share.lower, p), max(share.upper, p))


def fisher_exact(hits_a: int, trials_a: int, hits_b: int, trials_b: int) -> float:
    """Two-sided p-value that two shares are the same (Fisher's exact test)."""
    from scipy.stats import fisher_exact as exact

    table = [[hits_a, trials_a - hits_a], [hits_b, trials_b - hits_b]]
    return float(exact(table).pvalue)


def smallest_effect(hits_a: int, trials_a: int, trials_b: int, level: float = 0.05) -> int | None:
    """Fewest hits above the share of A that `trials_b` trials of B need for p < level; None: no number would do."""
    floor = int(np.ceil(hits_a / trials_a * trials_b)) if trials_a else 0
    for hits in range(floor, trials_b + 1):
        if fisher_exact(hits_a, trials_a, hits, trials_b) < level:
            return hits
    return None


def _two_way_variance(residual: np.ndarray, session: Ints, block: Ints) -> float:
    by_session = _cluster_sum(residual, session)
    by_block = _cluster_sum(residual, block)
    both = _cluster_sum(residual, session * (int(block.max()) + 1) + block)
    return max(by_session + by_block - both, by_session, by_block)


def _cluster_sum(residual: np.ndarray, cluster: Ints) -> float:
    """Sum over clusters of the squared sum of residuals, with the small-sample factor G / (G - 1)."""
    if int(cluster.max()) > 4 * len(cluster):
        _, cluster = np.unique(cluster, return_inverse=True)
    held = np.bincount(cluster) > 0
    sums = np.bincount(cluster, weights=residual)[held]
    groups = len(sums)
    return float((sums**2).sum()) * (groups / (groups - 1) if groups > 1 else 1.0)


def _df_ratio(n: int, session: Ints, block: Ints) -> float:
    """(t at n - 1 degrees / t at the degrees of the smaller clustering) squared, at 97.5 %."""
    from scipy.special import stdtrit

    degrees = max(1, min(len(np.unique(session)), len(np.unique(block))) - 1)
    return float((stdtrit(max(1, n - 1), 0.975) / stdtrit(degrees, 0.975)) ** 2)
