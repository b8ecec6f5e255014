"""Aborts, vanished clients, preemptions and bursts: every block comes back and nobody else's answers change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metrobench.kvwindow import SCHEDULER, parse

from . import models as zoo
from .engine import Engine, forked, poisoned

ENV = {"KVWINDOW": "64+32"}
RESIDENT = parse("64+32").on(32).resident_blocks(256, 32)

pytestmark = pytest.mark.engine


def engine(path: str, **options: Any) -> Engine:
    from metrobench.kvwindow import register

    register()
    return Engine(path, scheduler_cls=SCHEDULER, **options)


def chunk(number: int, size: int) -> list[int]:
    return [3 + (11 * number + 5 * i) % 250 for i in range(size)]


def steady(one: Engine, rounds: int) -> None:
    """The session whose answers must not change: one chunk after the other."""
    for number in range(rounds):
        one.send("steady", chunk(number, 40))
        one.run()


def undisturbed(path: str) -> list[list[int]]:
    one = engine(path)
    steady(one, 8)
    return [answer.tokens for answer in one.answers["steady"]]


def aborted(path: str) -> dict[str, Any]:
    """Clients that go away while parked, while queued, while their chunk is half computed, and twice."""
    one = engine(path, max_num_batched_tokens=64)
    free = one.free_blocks
    with poisoned(one):
        for number in range(8):
            one.send("steady", chunk(number, 40))
            for name in ("parked", "running", "queued"):
                one.send(f"{name}{number}", chunk(number, 150))
            one.step()
            one.abort(f"queued{number}", f"running{number}")
            del one.answers[f"queued{number}"], one.answers[f"running{number}"]
            one.run()
            one.abort(f"parked{number}", f"parked{number}", "nobody")
        one.close("steady")
        one.settle()
    steady_tokens = [answer.tokens for answer in one.answers["steady"]]
    return {"tokens": steady_tokens, "lost": free - one.free_blocks, "left": len(one.scheduler.requests)}


def burst(path: str) -> dict[str, Any]:
    """One-shot requests that fill the pool several times over, beside the steady session."""
    one = engine(path, num_gpu_blocks_override=2 * RESIDENT + 1, max_num_seqs=4)
    free = one.free_blocks
    lowest = free
    with poisoned(one):
        for number in range(8):
            one.send("steady", chunk(number, 40))
            for copy in range(6):
                one.send(f"burst{number}-{copy}", chunk(copy, 200), max_tokens=20, resumable=False)
            while not all(answer.finish for answers in one.answers.values() for answer in answers):
                one.step()
                lowest = min(lowest, one.free_blocks)
        one.close("steady")
        one.settle()
    bursts = {name: answers[0].tokens for name, answers in one.answers.items() if name != "steady"}
    return {
        "tokens": [answer.tokens for answer in one.answers["steady"]],
        "bursts": bursts,
        "lost": free - one.free_blocks,
        "lowest": lowest,
    }


def preempted(path: str, caching: bool) -> dict[str, Any]:
    """Long decodes of several sessions in a pool too small for all: vLLM preempts and recomputes some."""
    one = engine(path, num_gpu_blocks_override=14, max_num_batched_tokens=64, enable_prefix_caching=caching)
    free, times = one.free_blocks, 0
    preempt = one.scheduler._preempt_request

    def count(*args: Any, **kwargs: Any) -> None:
        nonlocal times
        times += 1
        preempt(*args, **kwargs)

    one.scheduler._preempt_request = count
    for number in range(6):
        one.send(f"s{number}", chunk(number, 30), max_tokens=130, resumable=False)
    one.run()
    one.settle()
    tokens = [one.answers[f"s{number}"][0].tokens for number in range(6)]
    return {"tokens": tokens, "times": times, "lost": free - one.free_blocks}


def roomy(path: str) -> list[list[int]]:
    one = engine(path)
    for number in range(6):
        one.send(f"s{number}", chunk(number, 30), max_tokens=130, resumable=False)
    one.run()
    return [one.answers[f"s{number}"][0].tokens for number in range(6)]


def preempted_sessions(path: str, blocks: int) -> dict[str, Any]:
    """Sessions of two chunks, the second with a long answer; each is closed as soon as it is answered."""
    one = engine(path, num_gpu_blocks_override=blocks, max_num_batched_tokens=64)
    free, preempt, victims = one.free_blocks, one.scheduler._preempt_request, set()

    def noted(request: Any, *args: Any, **kwargs: Any) -> None:
        victims.add(request.request_id)
        preempt(request, *args, **kwargs)

    one.scheduler._preempt_request = noted
    names = [f"s{number}" for number in range(6)]
    for number, name in enumerate(names):
        one.send(name, chunk(number, 30))
    one.run()
    for number, name in enumerate(names):
        one.send(name, chunk(number + 9, 10), max_tokens=130)
    left = set(names)
    while left:
        one.step()
        for name in [name for name in left if one.answers[name][1].finish]:
            left.remove(name)
            one.close(name)
    one.settle()
    tokens = [[answer.tokens for answer in one.answers[name]] for name in names]
    return {"tokens": tokens, "victims": victims, "lost": free - one.free_blocks}


@pytest.fixture(scope="module")
def path(models: Path) -> str:
    return zoo.make("llama", models)


@pytest.fixture(scope="module")
def alone(path: str) -> list[list[int]]:
    """The steady session's tokens when nothing else happens."""
    tokens: list[list[int]] = forked(undisturbed, path, env=ENV)
    return tokens


@pytest.fixture(scope="module")
def with_room(path: str) -> list[list[int]]:
    """Tokens of the long decodes where all have room."""
    tokens: list[list[int]] = forked(roomy, path, env=ENV)
    return tokens


def test_clients_that_vanish_leave_no_block_behind(path: str, alone: list[list[int]]) -> None:
    facts = forked(aborted, path, env=ENV)
    assert facts["lost"] == 0
    assert facts["left"] == 0
    assert facts["tokens"] == alone


def test_a_burst_fills_the_pool_and_hurts_nobody(path: str, alone: list[list[int]]) -> None:
    facts = forked(burst, path, env=ENV)
    assert facts["lowest"] < RESIDENT, "the burst never filled the pool"
    assert facts["lost"] == 0
    assert facts["tokens"] == alone
    for copy in range(6):
        assert len({tuple(facts["bursts"][f"burst{number}-{copy}"]) for number in range(8)}) == 1


@pytest.mark.parametrize("caching", [False, True])
def test_a_preempted_request_computes_the_same_again(path: str, caching: bool, with_room: list[list[int]]) -> None:
    facts = forked(preempted, path, caching, env=ENV)
    assert facts["times"] > 0, "nothing was preempted"
    assert facts["lost"] == 0
    assert facts["tokens"] == with_room


def test_a_preempted_session_computes_its_whole_history_again(path: str) -> None:
    facts = forked(preempted_sessions, path, 14, env=ENV)
    roomy = forked(preempted_sessions, path, 64, env=ENV)
    assert facts["victims"], "nothing was preempted"
    assert not roomy["victims"]
    assert facts["lost"] == 0
    assert [[len(tokens) for tokens in session] for session in facts["tokens"]] == [[3, 130]] * 6
    assert facts["tokens"] == roomy["tokens"]
