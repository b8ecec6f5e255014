"""Rules that need no baseline."""

from __future__ import annotations

from typing import Any

from metrobench.gate.findings import Answer, Effect, Finding
from metrobench.gate.groups import Group
from metrobench.gate.levels import Seen, mean_level, more_runs
from metrobench.gate.moderated import More
from metrobench.gate.rules import NONE, Rule
from metrobench.gate.samples import Trial
from metrobench.measure.intervals import clopper_pearson

UNITS = {"miss_rate": "share", "drift": "seconds per second", "p50": "seconds", "p99": "seconds"}
ONE_RUN, SEVERAL = "the run's own interval", "mean over runs, Student's t"


def mscs_min(rule: Rule, now: Group) -> Finding:
    """Do all searches confirm at least the limit?"""
    los = [sample.lo or 0 for sample in now.samples]
    his = [sample.hi for sample in now.samples]
    upper = None if None in his else float(max(hi for hi in his if hi is not None))
    found: dict[str, Any] = {
        "rule": rule,
        "scope": now.scope,
        "unit": "sessions",
        "current": float(min(los)),
        "effect": Effect(float(min(los)), float(min(los)), upper),
        "test": "confirmed interval [lo, hi]",
        "records": (0, len(los)),
    }
    if min(los) >= rule.limit:
        return Finding(**found, answer=Answer.PASS)
    if upper is not None and upper <= rule.limit:
        return Finding(**found, answer=Answer.FAIL)
    return Finding(**found, answer=Answer.CANNOT_TELL, why="the interval holds the limit: --effort full narrows it")


def level(rule: Rule, now: Group) -> Finding:
    """Is a mean over runs at most the limit?"""
    seen = [each for trial in now.trials if (each := _seen(rule, trial)) is not None]
    found: dict[str, Any] = {"rule": rule, "scope": now.scope, "unit": UNITS[rule.metric], "records": (0, len(seen))}
    if rule.metric in ("p50", "p99") and any(trial.no_answer for trial in now.trials):
        return Finding(**found, answer=Answer.FAIL, why="too many frames were never answered")
    if not seen:
        why = {"drift": "the runs are too short for a drift"}.get(rule.metric, "too few frames")
        return Finding(**found, answer=Answer.CANNOT_TELL, why=why)
    mean = mean_level(seen)
    low = max(0.0, mean.lower) if rule.metric != "drift" else mean.lower
    found["current"], found["effect"] = mean.value, Effect(mean.value, low, mean.upper)
    found["test"] = ONE_RUN if len(seen) == 1 else SEVERAL
    if mean.upper <= rule.limit:
        return Finding(**found, answer=Answer.PASS)
    if low > rule.limit:
        return Finding(**found, answer=Answer.FAIL)
    extra = more_runs(mean, len(seen), rule.limit)
    why = "it lies too near the limit for any reasonable number of runs to decide"
    if extra:
        why = f"{extra} more run{'' if extra == 1 else 's'} would decide, if what was seen holds"
    return Finding(**found, answer=Answer.CANNOT_TELL, more=More(extra, 0) if extra else None, why=why)


def collapses(rule: Rule, now: Group) -> Finding:
    """How many runs collapsed?"""
    hits, trials = sum(trial.collapsed for trial in now.trials), len(now.trials)
    share = clopper_pearson(hits, trials)
    found: dict[str, Any] = {
        "rule": rule,
        "scope": now.scope,
        "unit": "share",
        "current": share.value,
        "effect": Effect(share.value, share.lower, share.upper),
        "test": "exact share (Clopper-Pearson)",
        "records": (0, trials),
    }
    kinds = ", ".join(sorted({trial.collapse for trial in now.trials if trial.collapsed}))
    seen = f"{hits} of {trials} collapsed{f' ({kinds})' if kinds else ''}"
    if rule.bound == NONE:
        return Finding(**found, answer=Answer.FAIL if hits else Answer.PASS, why=seen)
    if share.upper <= rule.limit:
        return Finding(**found, answer=Answer.PASS, why=seen)
    if share.lower > rule.limit:
        return Finding(**found, answer=Answer.FAIL, why=seen)
    extra = _more_trials(hits, trials, rule.limit)
    further = f"; {extra} more would decide, if it stays so" if extra else ""
    more = More(extra, 0) if extra else None
    return Finding(**found, answer=Answer.CANNOT_TELL, why=seen + further, more=more)


def forecast(rule: Rule, now: Group) -> Finding:
    """Is the earliest forecast collapse at least the limit away?"""
    known = [trial.forecast for trial in now.trials if trial.forecast is not None]
    found: dict[str, Any] = {"rule": rule, "scope": now.scope, "unit": "seconds", "records": (0, len(known))}
    if not known:
        return Finding(**found, answer=Answer.CANNOT_TELL, why="the runs show no pool, or too little of its growth")
    dated = [each for each in known if each.time is not None]
    if not dated:
        return Finding(**found, answer=Answer.PASS, test="forecast of each run", why="no collapse is forecast")
    first = min(dated, key=lambda each: each.time or 0.0)
    lower, upper = (first.time if end is None else end for end in (first.lower, first.upper))
    assert first.time is not None and lower is not None and upper is not None
    found |= {
        "current": first.time,
        "effect": Effect(first.time, lower, upper),
        "test": "earliest forecast of the runs",
    }
    if lower >= rule.limit:
        return Finding(**found, answer=Answer.PASS)
    if upper < rule.limit:
        return Finding(**found, answer=Answer.FAIL)
    return Finding(**found, answer=Answer.CANNOT_TELL, why="its interval holds the limit: a longer run dates it better")


def _seen(rule: Rule, trial: Trial) -> Seen | None:
    if rule.metric == "miss_rate":
        share = trial.missed
        return None if share is None else Seen(share.value, share.lower, share.upper)
    if rule.metric == "drift":
        slope = trial.slope
        return None if slope is None else Seen(slope.value, slope.lower, slope.upper)
    value = getattr(trial, rule.metric)
    return None if value is None else Seen(value, value, value)


def _more_trials(hits: int, trials: int, limit: float) -> int | None:
    """Further runs after which the exact interval leaves the limit, if the share stays."""
    for extra in range(1, 1000):
        share = clopper_pearson(hits * (trials + extra) / trials, trials + extra)
        if share.upper <= limit or share.lower > limit:
            return extra
    return None
