"""How often do identical runs collapse, when, and do two policies differ? The run is the unit of inference."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from metrobench.measure.collapse import Collapse
from metrobench.measure.intervals import Share, clopper_pearson, fisher_exact

SIGNIFICANT = 0.05
"""p-value below which two shares differ."""


class Trial(Struct, frozen=True):
    """One run among identical ones."""

    kind: str
    """collapse.Kind, as recorded."""
    struck: bool
    """It collapsed from a healthy state: counts in the incidence."""
    onset: float | None
    """t_obs, seconds from t0; None: it did not collapse."""
    watched: float
    """Seconds from t0 until which it was watched."""


class Survival(Struct, frozen=True):
    """Share of runs still serving after `t` seconds (Kaplan and Meier 1958), with its 95 % interval (log-log)."""

    t: float
    share: float
    lower: float | None
    """None: the interval does not exist (nobody, or everybody, has collapsed)."""
    upper: float | None


class Incidence(Struct, frozen=True):
    """Trials of one policy."""

    trials: int
    collapsed: int
    share: Share | None
    """Collapsed of all, with the exact interval; None: no trial."""
    kinds: dict[str, int]
    """Kinds of the collapses."""
    outside: int
    """Collapses that struck a server already overloaded, or from the start: no part of the incidence."""
    onset_median: float | None
    """Median time to collapse of all trials, survivors censored; None: fewer than half collapsed."""
    onset_first: float | None
    """Earliest onset, seconds."""
    onset_last: float | None
    """Latest onset, seconds."""
    survival: tuple[Survival, ...]
    """Steps of the survival curve."""


class Contrast(Struct, frozen=True):
    """Two policies against each other."""

    first: str
    second: str
    p: float
    """Two-sided, Fisher's exact test."""
    smallest: tuple[int, int] | None
    """Collapses of the two that would have been the least difference to show: none against so many. None: not even
    none against all would have shown."""


def trial(found: Collapse, watched: float) -> Trial:
    """One run's finding as a trial."""
    onset = found.observed if found.collapsed else None
    return Trial(found.kind.value, found.in_incidence, onset, watched)


def incidence(trials: Sequence[Trial]) -> Incidence:
    """Share and time of the collapses of one policy."""
    struck = [each for each in trials if each.struck]
    onsets = sorted(each.onset for each in struck if each.onset is not None)
    curve = survival(trials)
    return Incidence(
        trials=len(trials),
        collapsed=len(struck),
        share=clopper_pearson(len(struck), len(trials)) if trials else None,
        kinds=dict(Counter(each.kind for each in struck)),
        outside=sum(each.onset is not None and not each.struck for each in trials),
        onset_median=next((step.t for step in curve if step.share <= 0.5), None),
        onset_first=onsets[0] if onsets else None,
        onset_last=onsets[-1] if onsets else None,
        survival=curve,
    )


def survival(trials: Sequence[Trial]) -> tuple[Survival, ...]:
    """The survival curve at each onset; a trial that did not collapse from health is censored at its end."""
    from scipy import stats

    if not any(each.struck for each in trials):
        return ()
    seen = [each.onset for each in trials if each.struck and each.onset is not None]
    held = [each.onset if each.onset is not None else each.watched for each in trials if not each.struck]
    curve = stats.ecdf(stats.CensoredData(uncensored=seen, right=held)).sf
    with warnings.catch_warnings():
        # where nobody or everybody has collapsed there is no interval: those ends are None
        warnings.simplefilter("ignore", RuntimeWarning)
        ends = curve.confidence_interval(0.95, method="log-log")
    steps = zip(curve.quantiles, curve.probabilities, ends.low.probabilities, ends.high.probabilities, strict=True)
    return tuple(
        Survival(float(t), float(share), _known(low), _known(high)) for t, share, low, high in steps if float(t) in seen
    )


def contrast(first: str, a: Incidence, second: str, b: Incidence) -> Contrast | None:
    """Do two policies differ? None where one has no trials."""
    if not a.trials or not b.trials:
        return None
    p = fisher_exact(a.collapsed, a.trials, b.collapsed, b.trials)
    return Contrast(first, second, p, smallest_effect(a.trials, b.trials))


def smallest_effect(trials_a: int, trials_b: int) -> tuple[int, int] | None:
    """Fewest collapses of b that Fisher's test tells from none of a; None: no number does."""
    for hits in range(1, trials_b + 1):
        if fisher_exact(0, trials_a, hits, trials_b) < SIGNIFICANT:
            return 0, hits
    return None


def _known(value: float) -> float | None:
    return float(value) if 0.0 <= value <= 1.0 else None
