"""Rules against a baseline: capacity, and quantiles of latency."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, structs

from metrobench.gate.findings import Answer, Effect, Finding
from metrobench.gate.groups import Group
from metrobench.gate.knee import RUN_SD, knee
from metrobench.gate.moderated import PASS_RISK, Change, More, Value, contrast, enough, more, paired
from metrobench.gate.rules import Rule
from metrobench.gate.samples import Sample, Trial
from metrobench.units import percent

SEARCH_SD = 0.03
"""Expected standard deviation of log MSCS between searches of one deployment, beyond what a search resolves."""
PAIR_SD = 0.01
"""The same of the log ratio of two searches measured alternately: a machine that changes changes both."""
QUANTILE_SD = 0.05
"""Expected standard deviation of a log quantile of latency between runs; of a paired difference too."""
SEARCH_DF, QUANTILE_DF = 4.0, 2.0
"""Degrees of freedom that these expectations count as."""
INDEPENDENT = "moderated t (Smyth 2004)"
PAIRED = "paired moderated t"
BOUNDS = "ends of the intervals"


def mscs_drop(rule: Rule, before: Group, now: Group, risk: float) -> Finding:
    """Did the capacity drop by more than the limit? `risk`: of a false failure."""
    middle = [_middle(group) for group in (before, now)]
    about: dict[str, Any] = {
        "rule": rule,
        "scope": now.scope,
        "unit": "sessions",
        "baseline": middle[0],
        "current": middle[1],
        "records": (len(before.samples), len(now.samples)),
    }
    slower = _slower(*([each.trials for each in group.samples] for group in (before, now)))
    if None in middle:
        found = _by_bounds(about, rule, _bounds(before), _bounds(now))
        same = _by_bounds(about, rule, _bounds(before), _bounds(now).at(slower))
        return _but_for_the_machine(found, same, slower, alternately=False)
    change, limit = capacity_change(before.samples, now.samples), -math.log1p(-rule.limit)
    return _decide(about, change, _Bar(limit, risk, SEARCH_DF, lambda x: -math.expm1(-x)), slower)


def capacity_change(before: Sequence[Sample], now: Sequence[Sample]) -> Change:
    """Of log capacity, a loss counted positive; pair by pair where all were measured so. Every record's search must
    have found both sides of its capacity."""
    if alternate := _alternate(before, now):
        # the baseline's knee minus the current one's
        return paired([Value(_loss(b).value - _loss(a).value, _variance(a, b)) for a, b in alternate], SEARCH_DF)
    return contrast([_loss(each) for each in before], [_loss(each) for each in now], SEARCH_DF)


def quantile_rise(rule: Rule, before: Group, now: Group, risk: float) -> Finding:
    """Did a quantile of latency rise by more than the limit?"""
    about: dict[str, Any] = {"rule": rule, "scope": now.scope, "unit": "seconds"}
    was, values = ([getattr(each, rule.metric) for each in group.trials] for group in (before, now))
    known = [[value for value in side if value] for side in (was, values)]
    about["records"] = (len(known[0]), len(known[1]))
    if known[0] and any(each.no_answer for each in now.trials) and not any(each.no_answer for each in before.trials):
        why = "too many frames were never answered, which was not so in the baseline"
        return Finding(**about, answer=Answer.FAIL, why=why)
    if not known[0] or not known[1]:
        side = "the baseline" if not known[0] else "the current runs"
        return Finding(**about, answer=Answer.CANNOT_TELL, why=f"{side}: no {rule.metric}, too few frames or answers")
    about["baseline"], about["current"] = (math.exp(sum(map(math.log, side)) / len(side)) for side in known)
    change, limit = quantile_change(rule.metric, before, now), math.log1p(rule.limit)
    slower = _slower([before.trials], [now.trials])
    return _decide(about, change, _Bar(limit, risk, QUANTILE_DF, math.expm1), slower)


def quantile_change(metric: str, before: Group, now: Group) -> Change:
    """Of the log of a quantile of latency; both sides must have one."""
    sides = [[getattr(trial, metric) for trial in group.trials] for group in (before, now)]
    alternate = _alternate(before.samples, now.samples)
    if alternate and len(sides[0]) == len(sides[1]) == len(alternate) and all(sides[0]) and all(sides[1]):
        gaps = [math.log(getattr(b.trials[0], metric) / getattr(a.trials[0], metric)) for a, b in alternate]
        return paired([Value(gap, QUANTILE_SD**2) for gap in gaps], QUANTILE_DF)
    known = [[Value(math.log(value), QUANTILE_SD**2) for value in side if value] for side in sides]
    return contrast(known[0], known[1], QUANTILE_DF)


class _Bar(Struct, frozen=True):
    """What a change is held against."""

    limit: float
    """Of the log of the ratio."""
    risk: float
    """Of failing where nothing changed."""
    prior_df: float
    share: Callable[[float], float]
    """Log of a ratio as the share that people read."""


def _decide(about: dict[str, Any], change: Change, bar: _Bar, slower: float) -> Finding:
    """The answer that also holds with what the machine's own speed explains taken out."""
    own = structs.replace(change, value=change.value - slower)
    found, same = (_judged(about, each, bar) for each in (change, own))
    return _but_for_the_machine(found, same, slower, alternately=change.paired)


def _judged(about: dict[str, Any], change: Change, bar: _Bar) -> Finding:
    """Fail: significantly worse, and by more than the limit. Pass: not worse by the limit (one-sided 95 %)."""
    lower, upper = change.bounds()
    found: dict[str, Any] = {
        **about,
        "effect": Effect(bar.share(change.value), bar.share(lower), bar.share(upper)),
        "test": PAIRED if change.paired else INDEPENDENT,
        "p": change.p_above(0.0),
        "records": (change.baseline, change.current),
    }
    if change.value > bar.limit and change.p_above(0.0) < bar.risk:
        return Finding(**found, answer=Answer.FAIL)
    if change.upper(PASS_RISK) <= bar.limit:
        return Finding(**found, answer=Answer.PASS)
    further = more(change, bar.limit, bar.risk, bar.prior_df)
    wanted = further or enough(change)
    return Finding(**found, answer=Answer.CANNOT_TELL, more=wanted, why=_undecided(wanted, change, sure=bool(further)))


def _but_for_the_machine(found: Finding, same: Finding, slower: float, *, alternately: bool) -> Finding:
    """What is decided must be decided alike on cores of one speed: `same` is the finding with the change that the
    machine's own speed explains taken out. `alternately`: the records were measured so."""
    if found.answer is same.answer or found.answer is Answer.CANNOT_TELL:
        return found
    if found.answer is Answer.FAIL:
        told = f"{percent(math.expm1(slower), 0)} slower than for the baseline, which may be enough to break the rule"
    else:
        told = f"{percent(math.expm1(-slower), 0)} faster than for the baseline, which may hide a change"
    advice = "measure again" if alternately else "measure again, or both with --interleave"
    why = f"the machine itself was {told}: {advice}"
    return structs.replace(found, answer=Answer.CANNOT_TELL, why=why, more=None)


def _slower(before: Sequence[Sequence[Trial]], now: Sequence[Sequence[Trial]]) -> float:
    """Log of how much longer the same work took on the machine, mean over records; 0 where not every run tells."""
    was, become = (_log_work(side) for side in (before, now))
    return 0.0 if was is None or become is None else become - was


def _log_work(records: Sequence[Sequence[Trial]]) -> float | None:
    means = []
    for trials in records:
        known = [math.log(trial.work) for trial in trials if trial.work]
        if not known or len(known) < len(trials):
            return None
        means.append(sum(known) / len(known))
    return sum(means) / len(means) if means else None


def _undecided(wanted: More | None, change: Change, *, sure: bool) -> str:
    """`sure`: the records wanted decide, if what was seen holds; else they are what it takes to know that."""
    if wanted is None:
        return "the change lies too near the limit for any reasonable number of records to decide"
    would = "would decide, if what was seen holds" if sure else "would say how near the limit it is"
    if change.paired:
        return f"{_records(wanted.current, 'pair')} {would}"
    sides = [_records(wanted.current, "record")] if wanted.current else []
    sides += [f"{_records(wanted.baseline, 'record')} of the baseline"] if wanted.baseline else []
    return f"{' and '.join(sides)} {would}"


def _records(count: int, what: str) -> str:
    return f"{count} more {what}{'' if count == 1 else 's'}"


class _Bounds(Struct, frozen=True):
    low: float
    high: float

    def at(self, slower: float) -> _Bounds:
        """On a machine as fast as the baseline's."""
        return _Bounds(self.low * math.exp(slower), self.high * math.exp(slower))


def _by_bounds(about: dict[str, Any], rule: Rule, before: _Bounds, now: _Bounds) -> Finding:
    """Where a side of a search is open there is no estimate; what is certain may still decide."""
    keep = 1.0 - rule.limit
    certain: dict[str, Any] = {**about, "test": BOUNDS}
    if now.high < keep * before.low:
        why = f"at most {now.high:.0f} sessions, the baseline holds at least {before.low:.0f}"
        return Finding(**certain, answer=Answer.FAIL, why=why)
    if now.low >= keep * before.high:
        why = f"at least {now.low:.0f} sessions, the baseline holds at most {before.high:.0f}"
        return Finding(**certain, answer=Answer.PASS, why=why)
    side = "the baseline" if about["baseline"] is None else "the current"
    why = f"{side} search found only one side: no run passed, or none failed (see --max-sessions, --max-time)"
    return Finding(**certain, answer=Answer.CANNOT_TELL, why=why)


def _bounds(group: Group) -> _Bounds:
    """Between these the capacity of every record of the group lies, as far as its runs say."""
    ends = [_ends(sample.trials) for sample in group.samples]
    return _Bounds(min(each.low for each in ends), max(each.high for each in ends))


def _ends(trials: Sequence[Trial]) -> _Bounds:
    found = knee(trials)
    if found is not None:
        return _Bounds(math.exp(found.value - 2.0 * found.sd), math.exp(found.value + 2.0 * found.sd))
    passed = [each.sessions for each in trials if each.outcome == "passed"]
    failed = [each.sessions for each in trials if each.outcome == "failed"]
    return _Bounds(
        max(passed) * math.exp(-2.0 * RUN_SD) if passed else 0.0,
        min(failed) * math.exp(2.0 * RUN_SD) if failed else math.inf,
    )


def _middle(group: Group) -> float | None:
    """Sessions at which half of the runs pass, mean of the records; None where a record has only one side."""
    found = [knee(sample.trials) for sample in group.samples]
    values = [each.value for each in found if each is not None]
    return None if len(values) < len(found) else math.exp(sum(values) / len(values))


def _loss(sample: Sample) -> Value:
    """Minus log capacity: what is worse is larger."""
    found = knee(sample.trials)
    assert found is not None
    return Value(-found.value, found.sd**2 + SEARCH_SD**2)


def _variance(a: Sample, b: Sample) -> float:
    return sum(_loss(each).variance - SEARCH_SD**2 for each in (a, b)) + PAIR_SD**2


def _alternate(before: Sequence[Sample], now: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """The records as pairs, where every one has its partner."""
    partner = {(each.pair.name, each.pair.place): each for each in before if each.pair}
    found = [(partner[each.pair.name, each.pair.place], each) for each in now if each.pair and _has(partner, each)]
    return found if len(found) == len(now) == len(before) else []


def _has(partner: dict[tuple[str, int], Sample], sample: Sample) -> bool:
    return sample.pair is not None and (sample.pair.name, sample.pair.place) in partner
