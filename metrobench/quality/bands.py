"""Answers as a table, the age of a session in windows, and intervals whose unit is the session. Pure arithmetic.

Answers of one session depend on each other (one session that falls into a loop is wrong from then on), so every
interval resamples whole sessions; where no variance is seen between them, the exact interval over answers, which is
then the wider one, takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from metrobench.measure.intervals import clopper_pearson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EDGES = (0.0, 1.0, 2.0, 4.0, 8.0, float("inf"))
"""Ends of the age bands, in windows."""
RESAMPLES = 2000


class Estimate(Struct, frozen=True):
    """A mean with its 95 % interval."""

    value: float
    lower: float
    upper: float
    answers: int
    sessions: int


@dataclass(frozen=True, slots=True)
class Scores:
    """One number for each answer of an arm. All shapes (answers,)."""

    session: Ints
    age: Ints
    """Tokens before the answer's first."""
    value: Floats
    """1 right, 0 wrong; or a negative log-likelihood in nats a token."""
    share: bool = True
    """Whether values are rights and wrongs."""

    def within(self, low: float, high: float) -> Scores:
        """The answers at ages in [low, high), tokens."""
        held = (self.age >= low) & (self.age < high)
        return Scores(self.session[held], self.age[held], self.value[held], self.share)


def estimate(scores: Scores, seed: int = 0) -> Estimate | None:
    """Mean of an arm's values, by a bootstrap over sessions (RESAMPLES draws, see `tails`). None: no answer."""
    count = len(scores.value)
    if not count:
        return None
    value = float(scores.value.mean())
    lower, upper = _resampled([scores], lambda means: means[0], seed)
    if scores.share:
        exact = clopper_pearson(float(scores.value.sum()), float(count))
        lower, upper = min(lower, exact.lower), max(upper, exact.upper)
    return Estimate(value, min(lower, value), max(upper, value), count, len(np.unique(scores.session)))


def minus(one: Estimate, other: Estimate) -> Estimate:
    """Difference of two independent shares, its interval from theirs (Newcombe 1998, Statistics in Medicine 17:873,
    method 10: the distances of the ends add up as squares)."""
    value = one.value - other.value
    below = math.hypot(one.value - one.lower, other.upper - other.value)
    above = math.hypot(one.upper - one.value, other.value - other.lower)
    return Estimate(value, value - below, value + above, one.answers + other.answers, one.sessions + other.sessions)


def paired(arm: Scores, base: Scores, seed: int = 0) -> Estimate | None:
    """Mean of arm minus base over the answers both have, matched by order; sessions resampled. None: no answer.

    Both hold the same questions in the same order: session by session, question by question. Raises ValueError where
    they do not.
    """
    if not np.array_equal(arm.session, base.session):
        raise ValueError("the arms do not hold the same answers")
    difference = arm.value - base.value
    if not len(difference):
        return None
    lower, upper = _resampled([Scores(arm.session, arm.age, difference)], lambda means: means[0], seed)
    value = float(difference.mean())
    return Estimate(value, min(lower, value), max(upper, value), len(difference), len(np.unique(arm.session)))


def change(early: Scores, late: Scores, seed: int = 0) -> tuple[float, float]:
    """Ends of the 95 % interval of the mean of `late` less that of `early`, two parts of the same sessions."""
    return _resampled([early, late], lambda means: means[1] - means[0], seed)


def share_words(found: Estimate | None) -> str:
    """A share as people read it: `86 % [80, 92]`, or a dash."""
    if found is None:
        return "-"
    return f"{found.value * 100:.0f} % [{found.lower * 100:.0f}, {found.upper * 100:.0f}]"


def band_name(low: float, high: float) -> str:
    """`1-2`, or `8+`."""
    return f"{low:g}+" if high == float("inf") else f"{low:g}-{high:g}"


def bands(oldest: float, window: float, edges: Sequence[float] = EDGES) -> list[tuple[float, float]]:
    """Age bands in windows that answers of at most `oldest` tokens can fall into."""
    return [(low, high) for low, high in pairwise(edges) if low * window <= oldest]


def _resampled(parts: Sequence[Scores], number: Callable[[Floats], Floats], seed: int) -> tuple[float, float]:
    """Ends of the middle 95 % (see `tails`) of a number of the parts' means over resampled sessions.

    `number`: means of shape (parts, RESAMPLES) to numbers of shape (RESAMPLES,).
    """
    sessions = np.unique(np.concatenate([part.session for part in parts]))
    size = len(sessions)
    places = [np.searchsorted(sessions, part.session) for part in parts]
    sums = np.array(
        [np.bincount(place, weights=part.value, minlength=size) for place, part in zip(places, parts, strict=True)]
    )
    counts = np.array([np.bincount(place, minlength=size) for place in places])
    draws = np.random.default_rng(seed).integers(0, size, size=(RESAMPLES, size))
    # a part may have no answer among the sessions drawn
    means = sums[:, draws].sum(axis=2) / np.maximum(counts[:, draws].sum(axis=2), 1)
    lower, upper = np.quantile(number(means), tails(size))
    return float(lower), float(upper)


def tails(sessions: int) -> tuple[float, float]:
    """Quantiles of a bootstrap over so many sessions that hold 95 %: further out than 2.5 %, since few sessions vary
    too little among themselves (expanded percentile interval; Hesterberg 2015, doi:10.1080/00031305.2015.1089789)."""
    from scipy.special import ndtr, stdtrit

    if sessions < 2:
        return 0.0, 1.0
    low = float(ndtr(math.sqrt(sessions / (sessions - 1)) * stdtrit(sessions - 1, 0.025)))
    return low, 1.0 - low
