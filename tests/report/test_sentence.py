"""The verdict in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metrobench.records import Record
from metrobench.report.sentence import verdict
from metrobench.report.stored import open_record
from tests.report import made


@pytest.fixture
def searched(tmp_path: Path) -> Record:
    return open_record(made.search(tmp_path) / "run.json").record


@pytest.fixture
def ran(tmp_path: Path) -> Record:
    return open_record(made.run(tmp_path) / "run.json").record


@pytest.mark.parametrize(
    ("mscs", "words"),
    [
        ({}, "36 concurrent sessions hold, 44 do not"),
        ({"hi": None, "stop": "nothing-failed"}, "At least 36 concurrent sessions hold: nothing failed."),
        ({"lo": 0}, "No number of sessions was confirmed to hold; 44 do not"),
        ({"lo": 0, "hi": None, "stop": "void-twice"}, "So far: 36 sessions passed once, 44 failed once."),
        ({"lo": 0, "hi": None, "passed_once": 0, "failed_once": None}, "No capacity was found: both ends confirmed."),
        ({"lo": 90, "hi": None}, "At least 90 concurrent sessions hold; how many do not is open: both ends confirmed."),
    ],
)
def test_a_search(searched: Record, mscs: dict[str, Any], words: str) -> None:
    assert searched.result is not None
    searched.result["mscs"] |= mscs
    assert words in verdict(searched)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("passed", "20 sessions hold for 15 s: 3.3 % of frames missed."),
        ("failed", "20 sessions do not hold for 15 s: 3.3 % of frames missed."),
        ("void", "This run of 20 sessions proves nothing: "),
        ("unresolved", "Undecided for 20 sessions after 15 s"),
        ("interrupted", "Interrupted: 3.3 % of frames missed, with 20 sessions, of the 300 that were due by then."),
    ],
)
def test_a_run(ran: Record, outcome: str, words: str) -> None:
    ran.probes[0].outcome = outcome
    assert verdict(ran).startswith(words)


@pytest.mark.parametrize("kind", ["stall", "starvation", "engine-death"])
def test_a_collapse_is_named(ran: Record, kind: str) -> None:
    ran.probes[0].verdict["collapse"]["kind"] = kind
    assert f"{kind}, " in verdict(ran)


def test_a_check(ran: Record) -> None:
    ran.kind = "check"
    assert verdict(ran).startswith("It answers: ")
    ran.probes[0].verdict["misses"] |= {"met": 0, "late": 0}
    assert verdict(ran) == "It does not answer."


def test_nothing_measured(ran: Record) -> None:
    ran.probes = []
    assert verdict(ran) == "Nothing was measured."
