"""What a record of spoken questions says again, in every format."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from metrobench.environment import describe_machine
from metrobench.quality.spoken.findings import analyse
from metrobench.records import SCHEMA, Record, plain
from metrobench.report import quality_table
from metrobench.report.comparison import numbered
from metrobench.report.csvfile import runs
from metrobench.report.html.page import page
from metrobench.report.markdown import document
from metrobench.report.observe import observe
from metrobench.report.stored import Stored, open_record
from metrobench.report.view import look
from metrobench.report.whole import whole

from .quiz import half, stages, wrong_from

URL = "ws://127.0.0.1:8910/v1/realtime"


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """An endpoint that goes wrong after a minute, and is silent now and then; read back from disk."""
    record = Record(
        schema=SCHEMA,
        kind="quality",
        status="complete",
        created="2026-12-01T10:00:00+00:00",
        command=["metrobench", "quality"],
        environment=describe_machine(),
        profile={"name": "smoke"},
        setting={"endpoint": URL, "protocol": "realtime", "budget": 1.0}
        | quality_table.spoken_setting(12, 20, 300.0, 10.0, 6),
        seed=1,
        stand_in=False,
        result={"quality": plain(analyse(*stages(half(wrong_from(60.0))), 10.0))},
    )
    folder = tmp_path_factory.mktemp("spoken")
    (folder / "run.json").write_bytes(msgspec.json.encode(record))
    return open_record(folder / "run.json")


def test_the_terminal_is_80_columns_wide_and_tells_wrong_from_none(spoken: Stored) -> None:
    text = whole(spoken.record)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "right  wrong  none  late" in text
    for name, _, _ in quality_table.checks(spoken.record):
        assert name in " ".join(text.split())


def test_no_format_speaks_of_windows(spoken: Stored) -> None:
    html = page(look(spoken, closely=True, judge=True))
    assert html.count("<svg") == 1
    for text in (whole(spoken.record), document([spoken]), html):
        assert "points against fresh sessions" in " ".join(text.split())
        assert " W " not in text
        assert "NLL" not in text


def test_csv_counts_what_became_of_the_questions(spoken: Stored) -> None:
    head, *lines = list(runs([spoken]))
    assert "questions_none" in head
    assert len(lines) == sum(len(each["bands"]) for each in quality_table.found(spoken.record)["findings"])


def test_beside_others_it_is_named_by_its_endpoint(spoken: Stored) -> None:
    assert "127.0.0.1:8910" in numbered([spoken.record, spoken.record])


def test_a_gate_sees_its_long_sessions(spoken: Stored) -> None:
    assert [each.arm for each in observe(spoken).answered] == ["long sessions"]


def test_a_probe_that_was_stopped_says_that_nothing_was_measured(spoken: Stored, tmp_path: Path) -> None:
    record = msgspec.structs.replace(spoken.record, status="interrupted", result=None)
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(record))
    stored = open_record(tmp_path / "run.json")
    assert "nothing was measured" in whole(stored.record)
    assert observe(stored).partial
    assert "interrupted" in page(look(stored, closely=True, judge=True))
