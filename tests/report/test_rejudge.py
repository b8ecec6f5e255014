"""Verdicts again from the stored facts."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from metrobench.measure.frames import build_table
from metrobench.measure.verdict import Verdict, judge
from metrobench.records import plain
from metrobench.report.rejudge import difference, judge_again, plan_of
from metrobench.report.stored import Stored, open_record
from metrobench.report.view import look
from tests.report import made


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return open_record(made.run(tmp_path) / "run.json")


def again(stored: Stored) -> Verdict:
    probe = stored.record.probes[0]
    facts = stored.facts(probe)
    return judge_again(stored.record, probe, facts, build_table(facts, plan_of(stored.record, probe)))


def test_the_same_version_says_the_same_to_the_last_digit(stored: Stored) -> None:
    assert plain(again(stored)) == stored.record.probes[0].verdict
    assert difference(stored.record.probes[0].verdict, again(stored)) is None


def test_the_plan_comes_back_from_the_verdict(stored: Stored) -> None:
    assert plan_of(stored.record, stored.record.probes[0]) == made.plan()


def test_another_outcome_is_said_with_its_reason(stored: Stored) -> None:
    old = copy.deepcopy(stored.record.probes[0].verdict)
    assert old["outcome"] == "failed"
    old["outcome"] = "passed"
    words = difference(old, again(stored))
    assert words is not None
    assert words.startswith("failed now, passed in the record (")


def test_other_numbers_are_named(stored: Stored) -> None:
    old = copy.deepcopy(stored.record.probes[0].verdict)
    old["latency"]["p50"] *= 1.001
    old["growth"]["slope"] = None
    assert difference(old, again(stored)) == "the outcome stays, other numbers: growth.slope, latency.p50"


@pytest.mark.parametrize("excused", [True, False])
def test_a_slow_machine_counts_as_it_did(tmp_path: Path, excused: bool) -> None:
    stored = open_record(made.run(tmp_path) / "run.json")
    probe = stored.record.probes[0]
    facts = stored.facts(probe)
    verdict = judge(facts, made.plan(), steal=0.0, others=0.05, slowdown=2.0, excuse_slow=excused)
    probe.verdict = plain(verdict)
    assert probe.verdict["outcome"] == ("void" if excused else "failed")
    assert difference(probe.verdict, again(stored)) is None


def test_a_search_is_judged_again_run_by_run(tmp_path: Path) -> None:
    stored = open_record(made.search(tmp_path) / "run.json")
    stored.record.probes[1].verdict["outcome"] = "passed"
    view = look(stored, closely=False, judge=True)
    assert view.judged == 4
    assert len(view.differences) == 1
    assert view.differences[0].startswith("run 2, 44 sessions: failed now")


def test_facts_that_are_gone_are_named_once(tmp_path: Path) -> None:
    folder = made.search(tmp_path)
    for place in ("01-n36", "02-n44"):
        (folder / "probes" / place / "frames.parquet").unlink()
    stored = open_record(folder / "run.json")
    view = look(stored, closely=True, judge=True)
    assert view.judged == 2
    assert len(stored.complaints) == 1
    assert "01-n36" in stored.complaints[0]
    assert "1 more" in stored.complaints[0]
