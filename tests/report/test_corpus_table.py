"""Corpora as text: 80 columns whatever they hold."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from metrobench.corpus.health import Fault, Health, Problem
from metrobench.corpus.keep import Looked
from metrobench.corpus.packs import Pack, unknown_clip
from metrobench.report.corpus_table import MOST_SHOWN, aligned, clips_table, packs_table, summary, troubles

text = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=100)


@given(st.lists(st.tuples(text, text, text, st.floats(0, 1e6), st.booleans()), min_size=1, max_size=5), st.booleans())
def test_tables_fit_80_columns(rows: list[tuple[str, str, str, float, bool]], listed: bool) -> None:
    clips = tuple(
        replace(
            unknown_clip(Path(name), seconds), language=language[:12], licence=licence, transcript=licence, human=human
        )
        for name, language, licence, seconds, human in rows
    )
    pack = Pack(rows[0][0], Path("folder"), clips, listed)
    for shown in (packs_table([pack, pack]), clips_table(pack), summary(pack)):
        assert all(cell_len(line) <= 80 for line in shown.split("\n"))


def test_wide_characters_take_two_columns() -> None:
    clip = replace(unknown_clip(Path("a.wav"), 1.0), transcript="你好世界" * 20)
    assert all(cell_len(line) <= 80 for line in clips_table(Pack("a", Path("a"), (clip,), True)).split("\n"))


def test_long_lists_of_trouble_are_cut_and_say_so() -> None:
    bad = Health(problems=(Problem(Fault.UNREADABLE, "cannot be decoded: " + "because " * 12),))
    lines = troubles([Looked(f"{'deep/' * 20}{number}.wav", bad) for number in range(MOST_SHOWN + 3)])
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == "  and 3 more files (--json lists all)"


def test_names_and_values_stand_in_two_columns() -> None:
    assert aligned({"a": "x", "long": "y " * 50})[:2] == ["a     x", "long  " + "y " * 36 + "y"]
