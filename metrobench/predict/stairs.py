"""A straight line of tokens seen through blocks: N alike sessions climb a stair of N blocks each time they all need one
more. Least squares on the gauge itself. Pure.

Where sessions are of one age the gauge is a stair, and a straight line through it dates the end of the pool up to half
a step wrong. The sessions' contexts are taken to lie evenly within a width w about their mean: w well below a block
gives the stair, w of a block or more the straight line N (m / b + 1/2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrobench.measure.frames import Floats
from metrobench.predict.model import Pool

WIDTHS = np.array([0.04, 0.12, 0.25, 0.5, 0.9, 1.5])
"""Widths w that are tried, in blocks."""
SLOWEST, FASTEST = 0.6, 2.0
"""Rates that are tried, in parts of the first guess."""


@dataclass(frozen=True, slots=True)
class Stair:
    """Tokens of one session in the mean: level + rate * x."""

    level: float
    """Tokens at x = 0."""
    rate: float
    """Tokens a second."""
    width: float
    """w, tokens."""
    misfit: float
    """Sum of squared differences from the gauge, blocks squared."""

    def tokens(self, x: Floats) -> Floats:
        """Mean tokens of a session at times x."""
        return self.level + self.rate * x


def mean_blocks(tokens: Floats, width: Floats | float, block_size: int) -> Floats:
    """Mean of ceil(T / b) over contexts T that lie evenly within `width` about `tokens`, none below 0."""
    half = 0.5 * np.asarray(width)
    return (_area(tokens + half, block_size) - _area(tokens - half, block_size)) / (2.0 * half)


def steepness(tokens: Floats, width: float, block_size: int) -> Floats:
    """Derivative of `mean_blocks` by `tokens`."""
    upper = np.ceil(np.maximum(tokens + 0.5 * width, 0.0) / block_size)
    lower = np.ceil(np.maximum(tokens - 0.5 * width, 0.0) / block_size)
    return np.asarray((upper - lower) / width)


def full_at(pool: Pool, sessions: float, width: float) -> float:
    """Mean tokens of a session at which the sum of blocks passes P - 1."""
    # half a block more than P - 1: what the mean of a count passes when the count reaches P
    wanted = (pool.usable + 0.5) / sessions
    if width >= pool.block_size:
        return (wanted - 0.5) * pool.block_size
    steps = np.floor(wanted)
    return float(steps * pool.block_size + (wanted - steps - 0.5) * width)


def fit_stairs(x: Floats, blocks: Floats, sessions: float, pool: Pool, slope: float) -> list[Stair]:
    """The best line for each width. `x`, `blocks`: shape (n,), times about 0 and the gauge; `slope`: a first guess of
    its rise, blocks a second."""
    size = pool.block_size
    rate = slope * size / sessions
    level = (float(blocks.mean()) / sessions - 0.5) * size
    levels = level + np.linspace(-0.75, 0.75, 15) * size
    rates = rate * np.geomspace(SLOWEST, FASTEST, 29)
    misfits = _misfits(levels, rates, WIDTHS * size, x, blocks, sessions, size)
    found = []
    for number, width in enumerate(WIDTHS * size):
        row, column = np.unravel_index(misfits[:, :, number].argmin(), misfits.shape[:2])
        best = Stair(float(levels[row]), float(rates[column]), float(width), float(misfits[row, column, number]))
        found.append(_refined(best, levels[1] - levels[0], rates[1] / rates[0], x, blocks, sessions, size))
    return found


def stairs_on(level: float, rate: float, tokens: Floats, blocks: Floats, sessions: float, pool: Pool) -> list[Stair]:
    """One line through known `tokens` of a session, each width with its misfit from the gauge. Shapes (n,)."""
    size = pool.block_size
    misfits = [np.square(sessions * mean_blocks(tokens, width, size) - blocks).sum() for width in WIDTHS * size]
    return [
        Stair(level, rate, float(width), float(misfit)) for width, misfit in zip(WIDTHS * size, misfits, strict=True)
    ]


def _refined(best: Stair, step: float, ratio: float, x: Floats, blocks: Floats, sessions: float, size: int) -> Stair:
    for _ in range(6):
        levels = best.level + np.linspace(-1.0, 1.0, 5) * step
        rates = best.rate * ratio ** np.linspace(-1.0, 1.0, 5)
        misfits = _misfits(levels, rates, np.array([best.width]), x, blocks, sessions, size)[:, :, 0]
        row, column = np.unravel_index(misfits.argmin(), misfits.shape)
        if misfits[row, column] < best.misfit:
            best = Stair(float(levels[row]), float(rates[column]), best.width, float(misfits[row, column]))
        step, ratio = 0.5 * step, ratio**0.5
    return best


def _misfits(
    levels: Floats, rates: Floats, widths: Floats, x: Floats, blocks: Floats, sessions: float, size: int
) -> Floats:
    """Sums of squared differences, shape (levels, rates, widths)."""
    tokens = levels[:, None, None] + rates[None, :, None] * x
    found = [np.square(sessions * mean_blocks(tokens, width, size) - blocks).sum(axis=-1) for width in widths]
    return np.stack(found, axis=-1)


def _area(tokens: Floats, size: int) -> Floats:
    """Integral of ceil(T / b) from 0 to `tokens`; 0 below."""
    tokens = np.maximum(tokens, 0.0)
    whole = np.floor(tokens / size)
    return np.asarray((whole + 1.0) * (tokens - 0.5 * size * whole))
