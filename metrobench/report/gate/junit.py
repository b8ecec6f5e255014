"""The answer of a gate as JUnit XML: a rule is a test case, what cannot be told is skipped (--strict: an error)."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from metrobench.gate.findings import Answer, Finding, Verdict
from metrobench.report.gate import words


def text(verdict: Verdict, strict: bool) -> str:
    """One testsuite. `strict`: what cannot be told counts as an error."""
    undecided = "error" if strict else "skipped"
    suite = Xml.Element("testsuite", name="metrobench gate")
    cases = [_case(suite, finding, undecided) for finding in verdict.findings]
    if not cases:
        cases = [undecided]
        Xml.SubElement(Xml.SubElement(suite, "testcase", classname="metrobench", name="gate"), undecided).set(
            "message", words.headline(verdict)
        )
    counts = {"tests": "", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for name, kind in counts.items():
        suite.set(name, str(cases.count(kind) if kind else len(cases)))
    said = [*(f"differs: {each}" for each in words.unlike(verdict)), *verdict.notes]
    Xml.SubElement(suite, "system-out").text = _clean("\n".join([*said, words.headline(verdict)]))
    root = Xml.Element("testsuites", {name: suite.get(name, "0") for name in counts})
    root.append(suite)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: Xml.Element, finding: Finding, undecided: str) -> str:
    """Add one; what it holds: failure, skipped, error or nothing."""
    case = Xml.SubElement(
        suite, "testcase", classname=_clean(f"metrobench.{finding.scope}"), name=_clean(finding.rule.name)
    )
    told = _clean(summary(finding))
    kind = {Answer.FAIL: "failure", Answer.CANNOT_TELL: undecided, Answer.PASS: ""}[finding.answer]
    if kind:
        Xml.SubElement(case, kind, message=told, type=finding.answer.value).text = told
    else:
        Xml.SubElement(case, "system-out").text = told
    return kind


def summary(finding: Finding) -> str:
    """All of a finding in one line."""
    _, answer, before, now, change, interval = words.cells(finding)
    numbers = [
        f"{name} {value}" for name, value in (("baseline", before), ("now", now), ("change", change)) if value != "-"
    ]
    if interval != "-":
        numbers.append(f"95 % {interval}")
    return "; ".join([f"{answer}: {', '.join(numbers)}" if numbers else answer, *filter(None, [words.beside(finding)])])


def _clean(text: str) -> str:
    """XML 1.0 knows no control characters."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)
