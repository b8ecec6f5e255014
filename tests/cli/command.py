"""Run `metrobench` as people do, in a process of its own; or in this one, where it ends before it starts anything."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from metrobench.cli.main import main

HANG = 180.0
"""Seconds after which a command counts as hung."""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


def metrobench(*arguments: str, cwd: Path, env: dict[str, str] | None = None, hang: float = HANG) -> Finished:
    """The finished command; fails the test when it hangs."""
    done = subprocess.run(
        [sys.executable, "-m", "metrobench", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=hang,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def in_process(*arguments: str, cwd: Path) -> Finished:
    """The same without the second that a new Python takes: for wrong usage and for help."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as here,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        here.chdir(cwd)
        here.setenv("COLUMNS", "80")
        main(list(arguments))
    return Finished(int(end.value.code or 0), out.getvalue(), err.getvalue())


def assert_plain_error(done: Finished, code: int, *words: str) -> None:
    """One or two lines on stderr that hold `words`, the right exit code, no traceback."""
    lines = done.err.strip().splitlines()
    assert done.code == code, done
    assert 1 <= len(lines) <= 2, done.err
    assert lines[0].startswith("metrobench: ")
    assert "Traceback" not in done.err + done.out
    for word in words:
        assert word in done.err, done.err
