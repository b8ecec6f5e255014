from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrobench.corpus.transcripts import find_text, parse_transcripts, read_transcripts
from metrobench.errors import UsageError

FORMS = {
    "LibriSpeech": ("84-1.trans.txt", "84-1-0 GO HOME NOW\n84-1-1 YES\n"),
    "Common Voice": (
        "validated.tsv",
        "client_id\tpath\tsentence\tage\nx\t84-1-0.mp3\tGO HOME NOW\t\ny\t84-1-1.mp3\tYES\t\n",
    ),
    "FLEURS": (
        "dev.tsv",
        "1\t84-1-0.wav\tGO HOME NOW\tgo home now\tg o\t1\tMALE\n2\t84-1-1.wav\tYES\tyes\ty\t1\tMALE\n",
    ),
    "comma": ("a.csv", 'file,transcript\n84-1-0.wav,"GO HOME NOW"\nsub/84-1-1.wav,YES\n'),
    "two columns": ("a.tsv", "84-1-0.wav\tGO HOME NOW\n84-1-1.wav\tYES\n"),
    "JSON lines": (
        "a.jsonl",
        '{"file": "a/84-1-0.wav", "transcript": "GO HOME NOW"}\n{"file": "84-1-1", "transcript": "YES"}\n',
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_known_form_is_read(tmp_path: Path, form: str) -> None:
    name, content = FORMS[form]
    (tmp_path / name).write_text(content)
    texts = read_transcripts(tmp_path / name)
    assert texts == {"84-1-0": "GO HOME NOW", "84-1-1": "YES"}
    assert find_text(texts, "84/1/84-1-0.flac") == "GO HOME NOW"
    assert find_text(texts, "other.flac") == ""


def test_quotation_marks_in_a_table_with_tabs_are_text() -> None:
    assert parse_transcripts('a.wav\t"Yes," he said.\n', "a.tsv") == {"a": '"Yes," he said.'}


def test_all_lists_in_a_folder(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.trans.txt").write_text(f"f{number} TEXT {number}\n")
    assert len(read_transcripts(tmp_path)) == 3


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b"nonsense\n", "line 1"),
        ("a.txt", b"", "no transcripts"),
        ("a.tsv", b"\xff\xfe\x00", "not UTF-8"),
        ("a.csv", b"file,transcript\n", "no transcripts"),
    ],
)
def test_what_is_no_list_is_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read_transcripts(tmp_path / name)


def test_a_missing_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the transcripts"):
        read_transcripts(tmp_path / "none.tsv")


@settings(max_examples=50)
@given(st.text(max_size=60), st.sampled_from(["a.txt", "a.tsv", "a.csv", "a.jsonl"]))
def test_any_content_is_read_or_refused(content: str, name: str) -> None:
    try:
        texts = parse_transcripts(content, name)
    except UsageError:
        return
    assert all(file and text for file, text in texts.items())
