"""Every input of a streaming session decodes as many tokens as it asks for, whatever the release of vLLM does."""

from types import SimpleNamespace

import pytest
from vllm.v1.core.sched.scheduler import Scheduler

from metrobench.kvwindow.scheduler import GuardScheduler
from metrobench.worker import engine
from metrobench.worker.scheduler import SessionScheduler


@pytest.mark.parametrize("scheduler", [SessionScheduler, GuardScheduler])
def test_an_input_brings_its_own_max_tokens(scheduler: type[Scheduler], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Scheduler, "_update_request_as_session", lambda *_: None)
    session = SimpleNamespace(max_tokens=1)
    scheduler._update_request_as_session(object.__new__(scheduler), session, SimpleNamespace(max_tokens=20))
    assert session.max_tokens == 20


def test_the_release_in_use_needs_no_help():
    assert not engine._keeps_first_max_tokens()


def test_a_release_that_keeps_the_first_max_tokens_is_recognised(monkeypatch: pytest.MonkeyPatch):
    def older(self: object, session: object, update: object) -> None:
        """What 0.26 does."""

    monkeypatch.setattr(Scheduler, "_update_request_as_session", older)
    assert engine._keeps_first_max_tokens()
