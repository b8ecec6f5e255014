"""What must hold for the probe's numbers to be believed. Pure functions over scores; each says what it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from metrobench.quality.bands import Estimate, Floats, Ints, Scores, change, estimate, share_words, tails
from metrobench.quality.probe import Reply

LEAST_SESSIONS = 8
LEAST_KNOWN = 40
"""Questions that the model must answer in fresh context."""
LEAST_FULL = 0.6
"""Share that unbounded KV must answer in every band of age."""
LEAST_STEP = 0.2
"""Smallest lasting loss that has an onset."""
LEAST_AFTER = 0.1
"""Share of all answers that must lie behind an onset: a few bad last ones are none."""
MOST_FALL = 0.2
"""Fall of the re-rendered arm that must be excluded."""
RESAMPLES = 400

HELD, BROKEN, OPEN = "held", "broken", "not tested"


class Check(Struct, frozen=True):
    """One condition of belief."""

    name: str
    state: str
    """held, broken or `not tested` (nothing asked for needs it)."""
    seen: str


class Onset(Struct, frozen=True):
    """Age at which an arm begins to lose what full KV answers. Tokens."""

    value: float
    lower: float
    upper: float


def enough(sessions: int, known: int, asked: int) -> list[Check]:
    """Enough sessions to infer from, enough questions to ask."""
    return [
        Check(
            "enough sessions",
            HELD if sessions >= LEAST_SESSIONS else BROKEN,
            f"{sessions} sessions; at least {LEAST_SESSIONS} are needed",
        ),
        Check(
            "the model knows the answers",
            HELD if known >= LEAST_KNOWN else BROKEN,
            f"{known} of {asked} questions answered in fresh context; at least {LEAST_KNOWN} are needed",
        ),
    ]


def full_answers(by_band: Mapping[str, Estimate | None]) -> Check:
    """Unbounded KV goes on answering, or nothing can be blamed on a bound."""
    known = {band: found for band, found in by_band.items() if found is not None}
    low = [f"{band} W {found.value:.0%}" for band, found in known.items() if found.value < LEAST_FULL]
    if not known:
        return Check("unbounded KV answers at every age", BROKEN, "it was not asked")
    least = min(found.value for found in known.values())
    seen = f"least {least:.0%} of a band" if not low else f"under {LEAST_FULL:.0%}: {', '.join(low)}"
    return Check("unbounded KV answers at every age", BROKEN if low else HELD, seen)


def alike(full: Sequence[Reply], arms: Mapping[str, tuple[Sequence[Reply], int]]) -> Check:
    """Until an arm has lost a token to its bound it must say exactly what full KV says.

    arms: name to replies and the position of the first token that misses something.
    """
    compared, unlike = 0, []
    whole = {(reply.session, reply.place): reply for reply in full}
    for name, (replies, eviction) in arms.items():
        differing = 0
        for reply in replies:
            room = min(len(reply.tokens), eviction - reply.age + 1)
            other = whole.get((reply.session, reply.place))
            if room > 0 and other is not None and other.age == reply.age:
                compared += room
                differing += reply.tokens[:room] != other.tokens[:room]
        if differing:
            unlike.append(f"{name} ({differing} answers)")
    if unlike:
        return Check("all the same before the first eviction", BROKEN, f"differs from unbounded: {', '.join(unlike)}")
    if not compared:
        return Check("all the same before the first eviction", OPEN, "no token was sampled before one")
    return Check("all the same before the first eviction", HELD, f"{compared} tokens, all equal to those of unbounded")


def onset(arm: Scores, full: Scores, seed: int = 0) -> Onset | None:
    """The age from which an arm loses answers that full KV gives: the least-squares step in the paired loss over age,
    with a 95 % interval from resampled sessions. None: no step of LEAST_STEP.

    Both arms hold the same answers in the same order.
    """
    loss = full.value - arm.value
    place = _step(arm.age, loss)
    if place is None:
        return None
    sessions = np.unique(arm.session)
    of_session = [np.flatnonzero(arm.session == number) for number in sessions]
    random = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([of_session[number] for number in random.integers(0, len(sessions), len(sessions))])
        if (age := _step(arm.age[rows], loss[rows])) is not None:
            found.append(age)
    if len(found) < RESAMPLES / 2:
        return None
    lower, upper = np.quantile(found, tails(len(sessions)))
    return Onset(place, min(float(lower), place), max(float(upper), place))


def moves(onsets: Mapping[int, Onset | None], must_lose: bool = True) -> Check:
    """A wider window must lose its answers later. onsets: width in tokens to onset.

    `must_lose`: the narrowest has to lose some, and all are compared; else only those of twice the width.
    """
    name = "the onset moves with W"
    if len(onsets) < 2:
        return Check(name, OPEN, "no window without sinks was asked for")
    words = ", ".join(
        f"W={width} {f'{found.value:.0f} [{found.lower:.0f}, {found.upper:.0f}] tokens' if found else 'none seen'}"
        for width, found in sorted(onsets.items())
    )
    found = [onsets[width] for width in sorted(onsets)]
    if found[0] is None and not must_lose and not any(found):
        return Check(name, OPEN, "no window loses anything")
    if found[0] is None:
        young = "the narrowest window loses nothing (are sessions much older than it? --questions)"
        return Check(name, BROKEN, f"{words}: {young}")
    ends = [(width, each) for width, each in sorted(onsets.items()) if each is not None]
    compared = [(first, second) for first, second in pairwise(ends) if must_lose or second[0] >= 2 * first[0]]
    apart = all(first.upper < second.lower for (_, first), (_, second) in compared)
    late = found == [*(each for _, each in ends), *[None] * (len(found) - len(ends))]
    if late and not (must_lose or compared):
        return Check(name, OPEN, f"{words}: none is twice as wide as another that loses")
    return Check(name, HELD if apart and late else BROKEN, words)


def flat(rendered: Scores, middle: float) -> Check:
    """Turns that are computed anew must not get worse with age. `middle`: tokens that part early from late."""
    name = "re-rendered turns stay flat"
    early, late = rendered.within(0, middle), rendered.within(middle, float("inf"))
    if not len(early.value) or not len(late.value):
        return Check(name, BROKEN, "no question came both early and late (more --questions reach a greater age)")
    moved = float(late.value.mean() - early.value.mean())
    fall, _ = change(early, late)
    seen = f"{share_words(estimate(early))} early, {share_words(estimate(late))} late"
    return Check(name, HELD if fall > -MOST_FALL else BROKEN, f"{seen}; change {moved:+.0%}, at least {fall:+.0%}")


def _step(age: Ints, loss: Floats) -> float | None:
    """Age that best parts `loss` into a lower and a higher level (least squares); None: no step of LEAST_STEP."""
    order = np.argsort(age, kind="stable")
    age, loss = age[order], loss[order]
    count = len(loss)
    if count < 4:
        return None
    before = np.arange(1, count)
    total = np.cumsum(loss)
    low, high = total[:-1] / before, (total[-1] - total[:-1]) / (count - before)
    gain = before * (count - before) * (high - low) ** 2
    # a step lies between two ages, not among equal ones, and upwards
    gain[(age[1:] == age[:-1]) | (high - low < LEAST_STEP) | (count - before < LEAST_AFTER * count)] = -1.0
    best = int(np.argmax(gain))
    return float(age[best + 1]) if gain[best] > 0 else None
