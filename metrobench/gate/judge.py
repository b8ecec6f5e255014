"""The rules of a policy applied to records: the gate itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from metrobench.gate import absolute, answers, changes
from metrobench.gate.comparability import Difference, differences
from metrobench.gate.findings import Answer, Finding, Verdict, overall
from metrobench.gate.groups import Group, arms, partners, runs, searches
from metrobench.gate.rules import MIN, RELATIVE, Policy, Rule
from metrobench.gate.samples import Sample

FALSE_FAILURES = 0.02
"""Chance that a gate fails where nothing changed, all its comparisons together."""

PAIRS_DIFFER = ("policy", "engine")
"""Conditions that may differ between the sides of records that were measured alternately."""


def judge(policy: Policy, baseline: Sequence[Sample], current: Sequence[Sample], allow: Collection[str]) -> Verdict:
    """`current` against `baseline`; `allow`: conditions (comparability.NAMES) that may differ. Pure."""
    notes = [f"{each.name} is left out: {each.partial}" for each in (*baseline, *current) if each.partial]
    notes += [f"{each.name}: {each.remark}" for each in (*baseline, *current) if each.remark]
    before, now = ([each for each in side if not each.partial] for side in (baseline, current))
    if _measured_alternately(before, now):
        # what a pair differs in is what it was measured for
        allow = {*allow, *PAIRS_DIFFER}
        before, now = whole_pairs(before, now)
    paired = [
        (rule, pair)
        for rule in policy.rules
        for pair in partners(_groups(rule, before, policy, allow), _groups(rule, now, policy, allow))
    ]
    compared = sum(rule.bound in RELATIVE for rule, _ in paired)
    unlike = _differences(paired, allow)
    findings = [_apply(rule, pair, FALSE_FAILURES / max(1, compared), allow) for rule, pair in paired]
    if policy.asked:
        idle = [rule for rule in policy.rules if all(rule is not used for used, _ in paired)]
        findings += [_nothing(rule, bool(now)) for rule in idle]
    notes += _unused(now, paired)
    found = tuple(findings)
    return Verdict(answer=overall(found), findings=found, differences=unlike, notes=tuple(notes))


def _measured_alternately(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    names = [{each.pair.name if each.pair else "" for each in side} for side in (before, now)]
    return names[0] == names[1] and "" not in names[0]


def whole_pairs(first: Sequence[Sample], second: Sequence[Sample]) -> tuple[list[Sample], list[Sample]]:
    """The records of both sides whose partner is there and ended too."""
    whole = [
        {(each.pair.name, each.pair.place) for each in side if each.pair and not each.partial}
        for side in (first, second)
    ]
    both = whole[0] & whole[1]
    kept = [
        [each for each in side if each.pair and (each.pair.name, each.pair.place) in both] for side in (first, second)
    ]
    return kept[0], kept[1]


def _groups(rule: Rule, samples: Sequence[Sample], policy: Policy, allow: Collection[str]) -> list[Group]:
    """A batch of `collapse` trials is meant to collapse: only a policy that was asked for judges it."""
    if rule.metric == "mscs":
        return searches(samples, allow)
    if rule.metric == "quality":
        return arms(samples, allow)
    return runs(samples, ("run", "collapse") if policy.asked else ("run",), allow)


def _differences(
    paired: Sequence[tuple[Rule, tuple[Group | None, Group]]], allow: Collection[str]
) -> tuple[Difference, ...]:
    found = [
        each
        for rule, (before, now) in paired
        if before is not None and rule.bound in RELATIVE
        for each in differences(before.samples, now.samples, allow)
    ]
    return tuple(dict.fromkeys(found))


def _apply(rule: Rule, pair: tuple[Group | None, Group], risk: float, allow: Collection[str]) -> Finding:
    before, now = pair
    if rule.bound not in RELATIVE:
        return _alone(rule, now)
    unit = _UNITS.get(rule.metric, "seconds")
    if before is None:
        why = "the baseline holds nothing like it"
        return Finding(rule=rule, scope=now.scope, answer=Answer.CANNOT_TELL, unit=unit, why=why)
    refused = [each.name for each in differences(before.samples, now.samples, allow) if not each.allowed]
    if refused:
        why = f"not comparable: another {', '.join(refused)}"
        return Finding(rule=rule, scope=now.scope, answer=Answer.CANNOT_TELL, unit=unit, why=why)
    compare = _CHANGES.get(rule.metric, changes.quantile_rise)
    return compare(rule, before, now, risk)


_UNITS = {"mscs": "sessions", "quality": "share"}
_CHANGES = {"mscs": changes.mscs_drop, "quality": answers.quality_drop}
_KINDS = {"mscs": "capacity", "quality": "quality"}


def _alone(rule: Rule, now: Group) -> Finding:
    if rule.metric == "mscs" and rule.bound == MIN:
        return absolute.mscs_min(rule, now)
    if rule.metric == "quality":
        return answers.quality_min(rule, now)
    if rule.metric == "collapse":
        return absolute.collapses(rule, now)
    return absolute.forecast(rule, now) if rule.metric == "forecast" else absolute.level(rule, now)


def _nothing(rule: Rule, any_record: bool) -> Finding:
    kind = _KINDS.get(rule.metric, "run")
    why = f"no {kind} record among those given" if any_record else "no record that is complete"
    return Finding(rule=rule, scope="-", answer=Answer.CANNOT_TELL, unit="", why=why)


def _unused(now: Sequence[Sample], paired: Sequence[tuple[Rule, tuple[Group | None, Group]]]) -> list[str]:
    """Records that no rule is about."""
    used = {sample.name for _, (_, group) in paired for sample in group.samples}
    return [f"{each.name} is left out: no rule is about a {each.kind} record" for each in now if each.name not in used]
