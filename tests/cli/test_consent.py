"""Who is asked before somebody else's server is loaded."""

from __future__ import annotations

import io
import sys

import pytest

from metrobench.cli import consent
from metrobench.errors import UnreachableError, UsageError


@pytest.mark.parametrize("url", ["ws://127.0.0.1:8910/v1", "ws://[::1]:9/x", "ws://127.9.9.9", "ws://localhost:1/"])
def test_loopback_needs_no_leave(url: str) -> None:
    assert consent.is_loopback(url)
    consent.ask(url, 1000, 3600.0, yes=False)


def test_another_machine_is_asked_for_with_sessions_and_time() -> None:
    with pytest.raises(UsageError) as caught:
        consent.ask("ws://192.0.2.7:8000/v1/realtime", 64, 320.0, yes=False)
    assert "192.0.2.7" in caught.value.message
    assert "64 live sessions" in caught.value.message
    assert "5 min 20 s" in caught.value.message
    assert "--yes" in caught.value.hint


def test_yes_is_leave() -> None:
    consent.ask("ws://192.0.2.7:8000/v1/realtime", 64, 320.0, yes=True)


def test_a_host_that_does_not_exist_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="cannot be found"):
        consent.ask("ws://no-such-host.invalid/", 1, 1.0, yes=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_question_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    typed, shown = Terminal("n\n"), Terminal()
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(sys, "stderr", shown)
    with pytest.raises(UsageError, match="nothing was sent"):
        consent.ask("ws://192.0.2.7:8000/v1/realtime", 1024, 36_000.0, yes=False)
    assert "192.0.2.7" in shown.getvalue() and "1024 live sessions" in shown.getvalue()
    assert all(len(line) <= 80 for line in shown.getvalue().splitlines())
