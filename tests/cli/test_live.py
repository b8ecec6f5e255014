"""Progress lines and interrupts."""

from __future__ import annotations

import io
import os
import signal

import pytest

from metrobench.cli import live
from metrobench.cli.live import Interrupted, Interrupts, Live


def test_lines_that_stay_fit_80_columns():
    stream = io.StringIO()
    Live(quiet=False, stream=stream).line("run 3 · 215 sessions · " + "a reason in many words " * 8)
    assert all(len(line) <= 80 for line in stream.getvalue().splitlines())


def test_quiet_says_nothing():
    stream = io.StringIO()
    quiet = Live(quiet=True, stream=stream)
    quiet.line("a")
    quiet.status("b")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_measuring_is_noted_and_a_hasty_second_one_changes_nothing(signum: int):
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signum)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.signum == signum


def test_a_second_signal_after_a_while_ends_everything(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "PATIENCE", -1.0)
    with Interrupts(), pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)


def test_before_measuring_a_signal_ends_the_command_at_once():
    with Interrupts() as interrupts, pytest.raises(Interrupted) as caught, interrupts.at_once():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.signum == signal.SIGTERM


def test_a_signal_noted_before_is_not_forgotten():
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted), interrupts.at_once():
            raise AssertionError("never reached")


def test_while_the_record_is_written_signals_wait():
    with Interrupts() as interrupts:
        interrupts.finish()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.signum is None
