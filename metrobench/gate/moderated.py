"""Two groups of few records compared: the moderated t test, and how many records would decide.

A variance from two or three records is worth little, and none at all from one. It is therefore drawn towards one known
beforehand, as if that rested on some degrees of freedom of its own (Smyth 2004, doi 10.2202/1544-6115.1027, eq. 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

PASS_RISK = 0.05
"""Largest chance of passing where the true change is just the one that the rule forbids."""
POWER = 0.9
"""Chance of a decision that a recommended number of records aims at, if the true change is the one seen."""
MOST_MORE = 20
"""Most further records that are recommended on a side."""
ENOUGH, ENOUGH_PAIRS = 3, 6
"""Records of a side, and pairs, from which on a change that lies near its limit is believed to lie there."""


class Value(Struct, frozen=True):
    """One record's measured value."""

    value: float
    """A logarithm."""
    variance: float
    """As expected beforehand: between records, and of its own measurement."""


class Change(Struct, frozen=True):
    """Current minus baseline, in logarithms."""

    value: float
    error: float
    """Standard error."""
    df: float
    """Degrees of freedom of the t distribution, the prior's included."""
    scale: float
    """Variance seen over variance expected."""
    expected: float
    """Mean variance of one record (paired: of one difference), as expected beforehand."""
    baseline: int
    """Records."""
    current: int
    """Records."""
    paired: bool

    def bounds(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval of the change."""
        half = quantile(0.5 + confidence / 2.0, self.df) * self.error
        return self.value - half, self.value + half

    def p_above(self, limit: float) -> float:
        """One-sided p-value of the hypothesis that the change is at most `limit`."""
        from scipy.special import stdtr

        return float(stdtr(self.df, -(self.value - limit) / self.error))

    def upper(self, risk: float) -> float:
        """One-sided upper bound of the change, exceeded with chance `risk`."""
        return self.value + quantile(1.0 - risk, self.df) * self.error


class More(Struct, frozen=True):
    """Further records that would decide."""

    current: int
    baseline: int


def quantile(p: float, df: float) -> float:
    """Of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def contrast(baseline: Sequence[Value], current: Sequence[Value], prior_df: float) -> Change:
    """Current against baseline, records independent; at least one on each side."""
    means, weights, squares = zip(*(_weighted(side) for side in (baseline, current)), strict=True)
    count = len(baseline) + len(current)
    scale = (prior_df + sum(squares)) / (prior_df + count - 2)
    return Change(
        value=means[1] - means[0],
        error=math.sqrt(scale * sum(1.0 / weight for weight in weights)),
        df=prior_df + count - 2,
        scale=scale,
        expected=sum(each.variance for each in (*baseline, *current)) / count,
        baseline=len(baseline),
        current=len(current),
        paired=False,
    )


def paired(differences: Sequence[Value], prior_df: float) -> Change:
    """Differences of records that were measured alternately; at least one."""
    mean, weight, squares = _weighted(differences)
    count = len(differences)
    scale = (prior_df + squares) / (prior_df + count - 1)
    return Change(
        value=mean,
        error=math.sqrt(scale / weight),
        df=prior_df + count - 1,
        scale=scale,
        expected=sum(each.variance for each in differences) / count,
        baseline=count,
        current=count,
        paired=True,
    )


def more(change: Change, limit: float, risk: float, prior_df: float) -> More | None:
    """Fewest further records with which a change of the size seen would be decided, with chance POWER.

    `limit`: the change that the rule forbids to exceed, `risk`: that of a false failure. None: not with MOST_MORE.
    """
    for extra in _steps(change.paired):
        n, m = change.baseline + extra.baseline, change.current + extra.current
        share = 1.0 / n if change.paired else 1.0 / n + 1.0 / m
        df = prior_df + (n - 1 if change.paired else n + m - 2)
        error = math.sqrt(change.scale * change.expected * share)
        if decided(change.value, error, df, limit, risk):
            return extra
    return None


def enough(change: Change) -> More | None:
    """Further records for an estimate that is near the limit and rests on few; None: it does not."""
    least = ENOUGH_PAIRS if change.paired else ENOUGH
    wanted = More(max(0, least - change.current), max(0, least - change.baseline))
    return wanted if wanted.current or wanted.baseline else None


def decided(value: float, error: float, df: float, limit: float, risk: float) -> bool:
    """A true change of `value` is decided with chance POWER."""
    reserve = quantile(POWER, df) * error
    if value > limit:
        return value - reserve >= max(limit, quantile(1.0 - risk, df) * error)
    return value + reserve + quantile(1.0 - PASS_RISK, df) * error <= limit


def _steps(is_paired: bool) -> Iterator[More]:
    """More of the current side first; where that never decides, more of both."""
    if not is_paired:
        yield from (More(extra, 0) for extra in range(1, MOST_MORE + 1))
    yield from (More(extra, extra) for extra in range(1, MOST_MORE + 1))


def _weighted(values: Sequence[Value]) -> tuple[float, float, float]:
    """Weighted mean, sum of weights, weighted sum of squares about the mean."""
    weights = np.array([1.0 / each.variance for each in values])
    numbers = np.array([each.value for each in values])
    mean = float(weights @ numbers / weights.sum())
    return mean, float(weights.sum()), float(weights @ (numbers - mean) ** 2)
