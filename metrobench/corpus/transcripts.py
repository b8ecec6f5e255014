"""What is said in which file: the lists that speech corpora come with."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

import msgspec

from metrobench.errors import UsageError

FILE_COLUMNS = ("path", "file", "file_name", "filename", "audio", "wav")
TEXT_COLUMNS = ("sentence", "transcript", "transcription", "text")

Transcripts = dict[str, str]
"""Text by file name without folder and ending."""


def find_text(texts: Transcripts, file: str) -> str:
    """The text of a file; empty where there is none."""
    return texts.get(PurePath(file).stem, "")


def read_transcripts(path: Path) -> Transcripts:
    """Texts from a file, or from all `*.trans.txt` (LibriSpeech) in a folder.

    Known forms: JSON lines with `file` and `transcript`; tables with tabs or commas whose first line names a column of
    FILE_COLUMNS and one of TEXT_COLUMNS (Common Voice); FLEURS' tables (no heading, the file second, its text third);
    two columns; lines of a name and its text. Raises UsageError where none of them fits.
    """
    files = sorted(path.rglob("*.trans.txt")) if path.is_dir() else [path]
    texts: Transcripts = {}
    for file in files:
        texts.update(parse_transcripts(_read(file), file.name))
    if not texts:
        raise UsageError(f"no transcripts in {path}", "give lines of a file's name, a tab and its text")
    return texts


def parse_transcripts(content: str, name: str) -> Transcripts:
    """Texts from the content of a file called `name`."""
    if name.endswith(".jsonl"):
        pairs = _json_lines(content, name)
    elif "\t" in content or name.endswith(".csv"):
        pairs = _table(content, "\t" if "\t" in content else ",", name)
    else:
        pairs = (_split(line) for line in content.splitlines() if line.strip())
    return {PurePath(file).stem: text.strip() for file, text in pairs if file and text.strip()}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read the transcripts {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the transcripts {path} are not UTF-8 text") from error


def _split(line: str) -> tuple[str, str]:
    file, _, text = line.strip().partition(" ")
    return file, text


def _json_lines(content: str, name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                row = msgspec.json.decode(line, type=dict[str, object])
            except msgspec.DecodeError as error:
                raise UsageError(f"{name} line {number}: {error}") from error
            yield str(row.get("file", "")), str(row.get("transcript", ""))


def _table(content: str, tab: str, name: str) -> Iterator[tuple[str, str]]:
    # tables with tabs hold quotation marks as they are spoken
    lines = content.splitlines()
    plain = csv.reader(lines, delimiter=tab, quoting=csv.QUOTE_NONE)
    try:
        rows = [row for row in (plain if tab == "\t" else csv.reader(lines)) if row]
    except csv.Error as error:
        raise UsageError(f"{name} is not a table: {error}") from error
    heading = [cell.strip().lower() for cell in rows[0]] if rows else []
    file, text = _column(heading, FILE_COLUMNS), _column(heading, TEXT_COLUMNS)
    if file is None or text is None:
        file, text = (1, 2) if len(heading) > 2 else (0, 1)
    else:
        rows = rows[1:]
    for row in rows:
        if len(row) > max(file, text):
            yield row[file], row[text]


def _column(heading: list[str], names: Iterable[str]) -> int | None:
    return next((heading.index(name) for name in names if name in heading), None)
