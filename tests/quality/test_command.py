"""`metrobench quality` as people type it, and what its records say again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from metrobench.quality.arms import Arm
from metrobench.report import quality_table
from metrobench.report.csvfile import runs
from metrobench.report.html.page import page
from metrobench.report.markdown import document
from metrobench.report.stored import Stored, open_record
from metrobench.report.view import look
from metrobench.report.whole import whole
from tests.cli.command import assert_plain_error, in_process


def test_the_terminal_is_80_columns_wide_and_prints_every_check(stored: Stored) -> None:
    text = whole(stored.record)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    for name, _, _ in quality_table.checks(stored.record):
        assert name in " ".join(text.split())


def test_every_format_holds_the_verdict(stored: Stored) -> None:
    claim = "the sinks of window:128+8 repair it"
    assert claim in " ".join(whole(stored.record).split())
    assert claim in document([stored])
    html = page(look(stored, closely=True, judge=True))
    assert claim in html
    assert html.count("<svg") == 2


def test_csv_has_one_line_for_each_arm_and_age(stored: Stored) -> None:
    head, *lines = list(runs([stored]))
    assert "accuracy_value_share" in head
    findings = quality_table.found(stored.record)["findings"]
    assert len(lines) == sum(len(each["bands"]) for each in findings)


def test_a_record_that_was_changed_is_refused(stored: Stored, tmp_path: Path) -> None:
    from metrobench.errors import UsageError

    record = msgspec.json.decode((stored.path / "run.json").read_bytes())
    record["result"]["quality"]["findings"] = "none"
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(record))
    with pytest.raises(UsageError, match="does not understand"):
        open_record(tmp_path / "run.json")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kv", "unbounded"), "nothing is bounded"),
        (("--model", "no-such-folder"), "neither smollm2, nor hf:ID, nor a folder"),
        (("--sessions", "0"), "--sessions"),
    ],
)
def test_wrong_usage_is_said_in_two_lines(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert_plain_error(in_process("quality", *arguments, cwd=tmp_path), 2, words)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert_plain_error(in_process("quality", "--model", "model", cwd=tmp_path), 2, "holds no config.json")


def test_arms_are_named_by_their_policy_and_condition() -> None:
    assert Arm("window:128", "chat").name == "window:128, chat"
    assert Arm("window:128", "re-rendered").name == "re-rendered"
