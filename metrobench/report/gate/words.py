"""The numbers of a finding as people read them, the same in every format."""

from __future__ import annotations

from metrobench.gate.findings import Answer, Finding, Verdict
from metrobench.gate.rules import MAX_DROP, RELATIVE
from metrobench.units import percent, seconds

HEADINGS = ("rule", "answer", "baseline", "now", "change", "95 % interval")
LETTERS = {Answer.PASS: "pass", Answer.FAIL: "FAIL", Answer.CANNOT_TELL: "cannot tell"}


def cells(finding: Finding) -> tuple[str, ...]:
    """One line of the table, as HEADINGS."""
    effect = finding.effect
    relative = finding.rule.bound in RELATIVE
    change = "-" if effect is None or not relative else _share(finding, effect.value)
    interval = "-"
    if effect is not None and (effect.lower is not None or effect.upper is not None):
        ends = (effect.lower, effect.upper) if not _drops(finding) else (effect.upper, effect.lower)
        shown = ["…" if end is None else _share(finding, end) if relative else number(finding, end) for end in ends]
        interval = f"{shown[0]} to {shown[1]}"
    return (
        finding.rule.name,
        LETTERS[finding.answer],
        number(finding, finding.baseline),
        number(finding, finding.current),
        change,
        interval,
    )


def number(finding: Finding, value: float | None) -> str:
    """A value in the unit of the finding."""
    return amount(finding.unit, value)


def amount(unit: str, value: float | None) -> str:
    """A value in its unit: sessions, share, seconds or seconds per second."""
    if value is None:
        return "-"
    if unit == "sessions":
        return f"{value:.0f}" if value >= 20.0 else f"{value:.3g}"
    if unit == "share":
        return percent(value, 2 if 0.0 < value < 0.001 else 1)
    if unit == "seconds per second":
        return f"{value * 60_000.0:+.2g} ms/min"
    return seconds(value)


def beside(finding: Finding) -> str:
    """What the answer rests on, in one sentence: the records, the test, the reason."""
    parts = [finding.why] if finding.why else []
    if finding.test:
        p = "" if finding.p is None else f", p = {_p(finding.p)}"
        parts.append(f"{finding.test}{p}; {_counts(finding)}")
    return "; ".join(parts)


def headline(verdict: Verdict) -> str:
    """The gate's answer in one line."""
    counts = {answer: sum(each.answer is answer for each in verdict.findings) for answer in Answer}
    total = len(verdict.findings)
    rules = f"{total} rule{'' if total == 1 else 's'}"
    if not total:
        return "CANNOT TELL: no rule found a record to judge"
    if verdict.answer is Answer.PASS:
        return f"PASS: {rules} kept"
    failed = ", ".join(each.rule.name for each in verdict.findings if each.answer is Answer.FAIL)
    if verdict.answer is Answer.FAIL:
        return f"FAIL: {failed} ({counts[Answer.FAIL]} of {rules})"
    return f"CANNOT TELL: {counts[Answer.CANNOT_TELL]} of {rules} undecided"


def unlike(verdict: Verdict) -> list[str]:
    """The conditions that differ, a line each."""
    return [
        f"{each.name}: {each.baseline} → {each.current}{' (allowed)' if each.allowed else ''}"
        for each in verdict.differences
    ]


def refused(verdict: Verdict) -> list[str]:
    """Names for --allow of the differences that keep rules from telling."""
    return list(dict.fromkeys(each.name for each in verdict.differences if not each.allowed))


def _drops(finding: Finding) -> bool:
    return finding.rule.bound == MAX_DROP


def _share(finding: Finding, value: float) -> str:
    """A change with its sign: a drop is shown as one."""
    signed = -value if _drops(finding) else value
    return f"{signed * 100.0 + 0.0:+.1f} %"


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 else "< 0.001"


def _counts(finding: Finding) -> str:
    before, now = finding.records
    what = "record" if finding.rule.metric in ("mscs", "quality") else "run"
    if finding.rule.bound in RELATIVE:
        return f"{now} {what}{'' if now == 1 else 's'} against {before}"
    return f"{now} {what}{'' if now == 1 else 's'}"
