"""The report of an open system, from a record whose facts are made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metrobench.errors import UsageError
from metrobench.measure.open_system import open_system
from metrobench.open_probe import OpenRun
from metrobench.records import Record, RunFolder, write_facts
from metrobench.report import markdown, ramp_table, sentence
from metrobench.report.html.page import page
from metrobench.report.stored import open_record
from metrobench.report.view import look
from metrobench.report.whole import whole
from tests.measure.test_open_system import crowd, run
from tests.report.made import blank


def record() -> Record:
    """Ten sessions held, twenty refused."""
    made = blank("ramp")
    made.setting |= {
        "offer": 30,
        "rate": 8.0,
        "hold": 40.0,
        "workload": "steady",
        "arrivals": "poisson",
        "full": False,
        "admission": "aimd+kv",
        "length": 60.0,
    }
    caps = [(0.5 * place, 10.0) for place in range(100)]
    found = OpenRun(open_system(run(crowd())), {"kind": "embedded"}, caps, [(1.0, 0.25)], 0.25, [])
    made.result = ramp_table.result(found)
    return made


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    folder = tmp_path / "2026-11-30T10-00-00-ramp-smoke"
    folder.mkdir()
    RunFolder(folder).write(record())
    write_facts(folder, run(crowd()), [])
    return open_record(folder / "run.json")


def test_a_stored_record_is_shown_as_the_command_did(stored: Any) -> None:
    text = whole(stored.record)
    assert "N*         10 sessions, settled after 10 s, swings of 0 % · peak 10" in text
    assert "refused    20: 20 overloaded · slowest refusal 20 ms" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_page_holds_findings_plots_and_every_refusal(stored: Any) -> None:
    text = page(look(stored, closely=True, judge=False))
    assert text.count("<svg") == 2
    assert "About 10 sessions were held at once, 20 of 30 were refused" in text
    assert text.count("overloaded") >= 20


def test_markdown_has_the_table_and_the_findings(stored: Any) -> None:
    text = markdown.document([stored])
    assert "| time | offered |" in text and "- admitted: 10 of 30" in text


def test_why_a_session_was_refused_is_told_with_its_signals(stored: Any) -> None:
    text = ramp_table.why(stored.record, 12)
    assert "session 12 was refused at 12.0 s, 20 ms after it came" in text
    assert "overloaded: no room" in text and "close code 1013" in text


def test_a_session_that_was_not_refused_has_no_why(stored: Any) -> None:
    assert ramp_table.why(stored.record, 3) == "session 3 was not refused"
    with pytest.raises(UsageError, match="there is no session 30"):
        ramp_table.why(stored.record, 30)


def test_a_run_in_which_nobody_was_refused_says_that_n_star_was_not_reached() -> None:
    made = record()
    assert made.result is not None
    made.result = made.result | {"ramp": made.result["ramp"] | {"n_star": None, "refused": 0, "refused_by": {}}}
    assert "none was refused" in sentence.verdict(made)
    assert "not reached" in ramp_table.text(made)
