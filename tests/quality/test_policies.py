"""Capacity beside right answers, policy by policy."""

from __future__ import annotations

from msgspec.structs import replace

from metrobench.gate.judge import judge
from metrobench.gate.rules import parse_policy
from metrobench.report import policies
from metrobench.report.observe import observe
from metrobench.report.stored import Stored
from tests.report.test_comparison import record

FOUND = {"mscs": {"lo": 90, "hi": 98, "stop": "converged", "runs": 5, "passed_once": 90, "failed_once": 98}}


def test_a_policy_of_both_kinds_stands_in_one_line(stored: Stored) -> None:
    capacity = record("window:128+8", FOUND)
    capacity.setting["endpoint"] = None
    rows = policies.rows([capacity, stored.record])
    by_policy = {row[0]: row for row in rows}
    assert by_policy["window:128+8"][1].startswith("[90, 98]")
    assert by_policy["window:128+8"][2].startswith("100 %")
    assert by_policy["window:128+8"][4:] == ("keeps answering", "136")
    assert by_policy["unbounded"][1] == "-"
    assert by_policy["unbounded"][5] == "grow"
    assert policies.notes([capacity, stored.record]) == ["capacity is that of smoke, answers are those of toy"]


def test_one_kind_alone_makes_no_table(stored: Stored) -> None:
    assert policies.rows([stored.record, replace(stored.record)]) == []


def test_a_search_without_a_result_is_named_by_its_end(stored: Stored) -> None:
    capacity = record("window:128", None)
    capacity.setting["endpoint"] = None
    assert {row[0]: row[1] for row in policies.rows([capacity, stored.record])}["window:128"] == "failed"


def test_a_gate_sees_the_arms_that_were_asked_for(stored: Stored) -> None:
    seen = observe(stored)
    assert [each.arm for each in seen.answered] == ["unbounded", "window:128", "window:256", "window:128+8"]
    assert {each.doubt for each in seen.answered} == {""}
    assert seen.partial == ""
    found = judge(parse_policy({"quality": {"max_drop": "5%"}}, "a test"), [seen], [seen], ())
    assert found.differences == ()
    assert found.findings[1].current == found.findings[1].baseline
