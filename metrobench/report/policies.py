"""What each KV policy holds and what it costs: capacity beside right answers, from records of both kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metrobench.policy import parse_policy
from metrobench.quality.arms import FREE, LONG
from metrobench.records import Record
from metrobench.report import comparison, quality_table

HEADINGS = ("policy", "MSCS", "right when old", "NLL loss", "verdict", "tokens")
"""`tokens`: most that a session keeps resident."""
_CAPACITY = "capacity"


def rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """A line for each policy, or endpoint, of either kind; empty where there are not both kinds."""
    capacity = {_subject(record): record for record in records if record.kind == _CAPACITY}
    answers = {
        subject: each
        for record in records
        if record.kind == quality_table.KIND
        for subject, each in _arms(record).items()
    }
    if not capacity or not answers:
        return []
    return [
        (subject, _held(capacity.get(subject)), *_answered(answers.get(subject)), _tokens(subject))
        for subject in dict.fromkeys([*capacity, *answers])
    ]


def notes(records: Sequence[Record]) -> list[str]:
    """What must be known of the table: other models, and probes that prove nothing."""
    measured = sorted({str(record.profile["name"]) for record in records if record.kind == _CAPACITY})
    probes = [record for record in records if record.kind == quality_table.KIND]
    asked = sorted({str(record.profile["name"]) for record in probes})
    found = []
    if measured != asked:
        found.append(f"capacity is that of {', '.join(measured)}, answers are those of {', '.join(asked)}")
    doubts = sorted({name for record in probes for name in quality_table.broken(record)})
    if doubts:
        found.append(f"answers are inconclusive: {'; '.join(doubts)}")
    return found


def _subject(record: Record) -> str:
    """The policy, or the endpoint's address."""
    endpoint = record.setting.get("endpoint")
    return comparison.host(endpoint) if endpoint else str(record.setting["kv"])


def _arms(record: Record) -> dict[str, dict[str, Any]]:
    findings = quality_table.found(record).get("findings", ())
    if quality_table.spoken(record):
        return {_subject(record): each for each in findings if each["arm"]["condition"] == LONG}
    return {each["arm"]["policy"]: each for each in findings if each["arm"]["condition"] == FREE}


def _held(record: Record | None) -> str:
    if record is None:
        return "-"
    return record.status if record.result is None else comparison.interval(record)


def _answered(each: dict[str, Any] | None) -> tuple[str, str, str]:
    if each is None:
        return "-", "-", "-"
    return quality_table.interval(each["late"]), quality_table.nats(each["nll_loss"]), str(each["verdict"])


def _tokens(subject: str) -> str:
    if ":" not in subject or subject.partition(":")[0] not in ("window", "recycle"):
        return "grow" if subject == "unbounded" else "-"
    return str(parse_policy(subject).most_tokens)
