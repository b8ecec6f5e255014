"""Every input of a streaming session decodes as many tokens as it asks for, whatever the release of vLLM does."""

from types import SimpleNamespace
from typing import Any

import pytest

from metrobench.worker import arguments

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("vllm")]


@pytest.fixture
def stock(vllm: None) -> Any:
    """vLLM's scheduler."""
    from vllm.v1.core.sched.scheduler import Scheduler

    return Scheduler


@pytest.fixture(params=["session", "guard"])
def ours(vllm: None, request: pytest.FixtureRequest) -> Any:
    """The schedulers that sit on top of it."""
    from metrobench.kvwindow.scheduler import GuardScheduler
    from metrobench.worker.scheduler import SessionScheduler

    return {"session": SessionScheduler, "guard": GuardScheduler}[request.param]


def test_an_input_brings_its_own_max_tokens(stock: Any, ours: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stock, "_update_request_as_session", lambda *_: None)
    session = SimpleNamespace(max_tokens=1)
    ours._update_request_as_session(object.__new__(ours), session, SimpleNamespace(max_tokens=20))
    assert session.max_tokens == 20


def test_the_release_in_use_needs_no_help():
    assert not arguments.keeps_first_max_tokens()


def test_a_release_that_keeps_the_first_max_tokens_is_recognised(stock: Any, monkeypatch: pytest.MonkeyPatch):
    def older(self: object, session: object, update: object) -> None:
        """What 0.26 does."""

    monkeypatch.setattr(stock, "_update_request_as_session", older)
    assert arguments.keeps_first_max_tokens()
