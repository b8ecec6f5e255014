"""The smallest window, over scripted models that lose their start with it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from metrobench.errors import UsageError
from metrobench.policy import KvPolicy
from metrobench.quality.search import KEEPS, LOSES_TOO_MUCH, UNSURE, Tried, bisect, judge, parse_windows, widest
from metrobench.records import plain
from metrobench.report.html.page import page
from metrobench.report.markdown import document
from metrobench.report.stored import Stored, open_record
from metrobench.report.view import look
from metrobench.report.whole import whole
from tests.cli.command import assert_plain_error, in_process

from .test_probe import facts, window
from .toy import everything


@given(st.lists(st.integers(1, 99), min_size=2, max_size=9, unique=True), st.integers(0, 110))
def test_the_smallest_of_those_that_keep_is_found_with_few_probes(widths: list[int], needed: int) -> None:
    widths = sorted(widths)
    asked: list[int] = []

    def probe(policy: KvPolicy) -> Tried:
        asked.append(policy.window)
        return Tried(str(policy), KEEPS if policy.window >= needed else LOSES_TOO_MUCH, None, None, None)

    found = bisect(widths, 0, probe)
    expected = next((width for width in widths if width >= needed), None)
    assert found.smallest == (None if expected is None else f"window:{expected}")
    assert found.sure
    assert len(asked) <= len(widths).bit_length()
    assert [each.policy for each in found.tried] == [f"window:{width}" for width in sorted(asked)]


def test_a_narrower_one_that_cannot_be_told_leaves_the_smallest_unsure() -> None:
    def probe(policy: KvPolicy) -> Tried:
        return Tried(str(policy), KEEPS if policy.window == 128 else UNSURE, None, None, None)

    found = bisect([64, 128], 16, probe)
    assert found.smallest == "window:128+16"
    assert not found.sure


def test_a_search_that_was_stopped_claims_nothing_more() -> None:
    found = bisect([64, 128, 256], 0, lambda policy: None)
    assert (found.smallest, found.sure, found.tried) == (None, False, [])


def test_a_window_is_judged_at_its_own_ages() -> None:
    full = facts("unbounded", everything)
    assert judge(full, facts("window:128", window(128, 0))).answer == LOSES_TOO_MUCH
    assert judge(full, facts("window:128+8", window(128, 8))).answer == KEEPS
    young = judge(full, facts("window:4096", window(4096, 0)))
    assert (young.answer, young.late) == (UNSURE, None)


def test_windows_are_put_on_blocks() -> None:
    assert parse_windows("200,64, 33", 32) == [64, 224]
    assert widest(1000) == 400


@pytest.mark.parametrize("asked", ["128", "a,b", "64,,128", "64,60"])
def test_what_is_no_list_of_windows_is_refused(asked: str) -> None:
    with pytest.raises(UsageError):
        parse_windows(asked, 32)


def test_two_lists_of_policies_are_one_too_many(tmp_path: Path) -> None:
    done = in_process("quality", "--find-window", "64,128", "--kv", "window:64", cwd=tmp_path)
    assert_plain_error(done, 2, "two lists of policies")


def test_a_report_says_what_was_found_and_what_was_tried(stored: Stored, tmp_path: Path) -> None:
    full = facts("unbounded", everything)
    sees = {0: window(128, 0), 8: window(128, 8)}
    searches = [
        bisect([128, 4096], sinks, lambda policy, sinks=sinks: judge(full, facts(str(policy), sees[sinks])))  # type: ignore[misc]
        for sinks in sees
    ]
    record = replace(stored.record, result={**(stored.record.result or {}), "windows": plain(searches)})
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(record))
    again = open_record(tmp_path / "run.json")
    text = whole(again.record)
    assert [line for line in text.splitlines() if len(line) > 80] == []
    for shown in (text, document([again]), page(look(again, closely=True, judge=True))):
        words = " ".join(shown.split())
        assert "Alone, no window that was tried is seen to cost no answers" in words
        assert "with 8 sinks, window:128+8 is the smallest that costs no answers" in words
