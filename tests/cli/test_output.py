"""What reaches the terminal: no control characters, no traceback when the reader left or the disk is full."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.cli.main import main
from metrobench.cli.output import plain
from tests.cli.test_consent import Terminal


@given(st.text())
def test_no_control_character_reaches_a_terminal(text: str):
    shown = plain(text)
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert len(shown) == len(text)


def test_an_escape_sequence_of_a_server_is_defused():
    assert plain("boom \x1b[31mred\x07") == "boom �[31mred�"


def say_to(stdout: str, words: str = "hello") -> subprocess.CompletedProcess[str]:
    code = f"from metrobench.cli.output import say; say({words!r}); say({words!r})"
    command = f'"$0" -c "$1" {stdout}'
    return subprocess.run(
        ["bash", "-c", command, sys.executable, code], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_reader_that_left_is_no_error():
    done = say_to("| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_clear_error():
    done = say_to("> /dev/full")
    assert "cannot write to standard output: No space left on device" in done.stderr


@pytest.mark.parametrize(
    "closed", ["<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("<&-", ">&-", "2>&-"))]
)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [("profiles", 0), ("check --endpoint ws://127.0.0.1:1/x", 4), ("check --model nobody", 2), ("corpus list", 0)],
)
def test_a_stream_that_is_closed_changes_nothing(tmp_path: Path, arguments: str, code: int, closed: str):
    command = f'"$0" -m metrobench {arguments} {closed}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr and "Error" not in done.stderr


def test_a_file_never_takes_the_place_of_a_closed_stream(tmp_path: Path):
    code = "from metrobench.cli.output import open_streams; open_streams(); print(open('file', 'w').fileno() > 2)"
    done = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" <&- 2>&-', sys.executable, code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "True\n"


def complaint(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> list[str]:
    """What is said of a model with a long name."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["profiles", "show", "no-such-model-" * 5])
    return stream.getvalue().splitlines()


def test_an_error_is_broken_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    lines = complaint(monkeypatch, Terminal())
    assert lines[0] == "metrobench: unknown model"
    assert all(len(line) <= 80 for line in lines)


def test_an_error_keeps_to_its_line_elsewhere(monkeypatch: pytest.MonkeyPatch):
    lines = complaint(monkeypatch, io.StringIO())
    assert len(lines) == 2 and len(lines[0]) > 80
