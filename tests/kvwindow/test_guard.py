"""A session that runs out of room ends alone; the stock engine dies or stalls with it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from metrobench.kvwindow import SCHEDULER

from . import models as zoo
from .engine import Engine, EngineError, forked

LIMIT = 256
GUARDED = {"scheduler_cls": SCHEDULER}

pytestmark = pytest.mark.engine


def chunk(number: int, size: int = 20) -> list[int]:
    return [3 + (7 * number + i) % 250 for i in range(size)]


def engine(path: str, window: bool, **options: Any) -> Engine:
    if window:
        from metrobench.kvwindow import register

        register()
    return Engine(path, max_model_len=LIMIT, **options)


def past_the_limit(path: str, window: bool, options: dict[str, Any]) -> dict[str, Any]:
    """Two sessions; `long` gets chunks until past max_model_len, `short` one now and then, in every step both live."""
    one = engine(path, window, **options)
    free = one.free_blocks
    for number in range(16):
        one.send("long", chunk(number))
        if number % 4 == 0:
            one.send("short", chunk(number, 5))
        one.run()
    held = one.held("long"), one.held("short")
    one.close("long")
    one.send("new", chunk(99), resumable=False)
    one.run()
    one.close("short")
    one.settle()
    return {
        "answers": one.answers,
        "held": held,
        "lost": free - one.free_blocks,
        "left": len(one.scheduler.requests) + len(getattr(one.scheduler, "_ended", ())),
    }


@pytest.mark.parametrize("window", [False, True])
def test_a_session_at_max_model_len_ends_alone(models: Path, window: bool) -> None:
    path = zoo.make("llama", models)
    env = {"KVWINDOW": "64+32"} if window else {}
    facts = forked(past_the_limit, path, window, GUARDED, env=env)
    long, short, new = (facts["answers"][name] for name in ("long", "short", "new"))
    fitting = (LIMIT - 1 - 20) // 22 + 1  # a chunk of 20 tokens and 3 answered ones adds 22
    assert [len(answer.tokens) for answer in long[:fitting]] == [3] * fitting
    assert all(answer.tokens == [] for answer in long[fitting:])
    assert {(answer.finish, answer.stop_reason) for answer in long[fitting:]} == {("length", "max_model_len")}
    assert [len(answer.tokens) for answer in short] == [3] * 4
    assert [len(answer.tokens) for answer in new] == [3]
    assert facts["held"][0] == 0
    assert facts["held"][1] > 0
    assert facts["lost"] == 0
    assert facts["left"] == 0


def test_the_neighbour_of_an_ended_session_is_not_disturbed(models: Path) -> None:
    path = zoo.make("llama", models)
    facts = forked(past_the_limit, path, True, GUARDED, env={"KVWINDOW": "64+32"})
    alone = forked(alone_short, path, env={"KVWINDOW": "64+32"})
    assert [answer.tokens for answer in facts["answers"]["short"]] == alone


@pytest.mark.parametrize(("asynchronous", "name"), [(False, "GuardScheduler"), (True, "AsyncGuardScheduler")])
def test_one_name_serves_both_ways_of_scheduling(asynchronous: bool, name: str, vllm: None) -> None:
    from types import SimpleNamespace

    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    from metrobench.kvwindow.scheduler import GuardScheduler

    config = SimpleNamespace(scheduler_config=SimpleNamespace(async_scheduling=asynchronous))
    made = GuardScheduler.__new__(GuardScheduler, vllm_config=config)
    assert type(made).__name__ == name
    assert isinstance(made, AsyncScheduler) == asynchronous


def alone_short(path: str) -> list[list[int]]:
    one = engine(path, True, **GUARDED)
    for number in range(0, 16, 4):
        one.send("short", chunk(number, 5))
        one.run()
    return [answer.tokens for answer in one.answers["short"]]


def test_the_stock_engine_dies_at_max_model_len(models: Path) -> None:
    """The reason for the guard. Once vLLM no longer dies here, the guard's first end has lost its purpose."""
    path = zoo.make("llama", models)
    with pytest.raises(EngineError, match=r"could not broadcast input array|num_tokens > 0"):
        forked(past_the_limit, path, False, {})


def queued_past_the_limit(path: str) -> dict[str, Any]:
    """All chunks are sent before the first is answered: the session ends inside a step, with chunks in its queue."""
    one = engine(path, True, **GUARDED)
    free = one.free_blocks
    for number in range(16):
        one.send("long", chunk(number))
    one.close("long")
    one.run()
    one.settle()
    return {"answers": one.answers, "lost": free - one.free_blocks, "ended": dict(one.scheduler._ended)}


def test_queued_chunks_of_an_ended_session_are_all_answered(models: Path) -> None:
    path = zoo.make("llama", models)
    facts = forked(queued_past_the_limit, path, env={"KVWINDOW": "64+32"})
    tokens = [len(answer.tokens) for answer in facts["answers"]["long"]]
    assert tokens == [3] * 11 + [0] * 5
    assert facts["lost"] == 0
    assert facts["ended"] == {}


def crowded(path: str, guarded: bool) -> dict[str, Any]:
    """Six sessions grow, each between two chunks most of the time, in a pool that holds four of them."""
    one = engine(path, True, num_gpu_blocks_override=4 * 4 + 2, **(GUARDED if guarded else {}))
    free = one.free_blocks
    names = [f"s{i}" for i in range(6)]
    for number in range(11):
        for name in names:
            if one.answers.get(name, [None])[-1] is None or not one.answers[name][-1].stop_reason:
                one.send(name, chunk(number))
                one.run(steps=400)
    held = sum(map(one.held, names))
    for name in names:
        one.close(name)
    one.settle()
    return {"answers": one.answers, "held": held, "lost": free - one.free_blocks}


def test_a_full_pool_costs_one_session_and_not_all(models: Path) -> None:
    path = zoo.make("llama", models)
    facts = forked(crowded, path, True, env={"KVWINDOW": "64+32"})
    last = [answers[-1] for answers in facts["answers"].values()]
    ended = [answer for answer in last if answer.stop_reason]
    assert 1 <= len(ended) <= 2
    assert {answer.stop_reason for answer in ended} == {"kv_pool_exhausted"}
    assert all(len(answer.tokens) < 3 for answer in ended)
    whole = [answers for answers in facts["answers"].values() if not answers[-1].stop_reason]
    assert all(len(answers) == 11 and all(len(answer.tokens) == 3 for answer in answers) for answers in whole)
    assert facts["lost"] == 0


def test_the_stock_scheduler_stalls_on_a_full_pool(models: Path) -> None:
    """The reason for the guard's second end."""
    path = zoo.make("llama", models)
    with pytest.raises(EngineError, match="still open after 400 steps"):
        forked(crowded, path, False, env={"KVWINDOW": "64+32"})


def front_end(path: str) -> dict[str, Any]:
    """The same session through vLLM's own front end state: what a client of AsyncLLM reads, chunk by chunk."""
    from vllm.outputs import STREAM_FINISHED
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.output_processor import OutputProcessor, RequestOutputCollector

    one = engine(path, True, **GUARDED)
    processor = OutputProcessor(None, log_stats=False)
    queue = RequestOutputCollector(RequestOutputKind.DELTA, "long")
    add = one._add

    def also(request: Any) -> None:
        request.external_req_id = request.request_id
        request.sampling_params.output_kind = RequestOutputKind.DELTA
        request.sampling_params.detokenize = False
        request.sampling_params.logprobs = None
        processor.add_request(copy.deepcopy(request), None, None, 0, queue)  # its own copy, as in another process
        add(request)

    read: list[tuple[int, str | None, Any]] = []

    def take(output: Any) -> None:
        processor.process_outputs([output])
        Engine._take(one, output)

    one._add, one._take = also, take  # type: ignore[method-assign]
    for number in range(13):
        one.send("long", chunk(number))
        one.run()
        output = queue.get_nowait().outputs[0]
        read.append((len(output.token_ids), output.finish_reason, output.stop_reason))
    one.close("long")
    return {"read": read, "over": queue.get_nowait() is STREAM_FINISHED, "open": len(processor.request_states)}


def test_a_client_reads_the_end_and_can_close(models: Path) -> None:
    path = zoo.make("llama", models)
    facts = forked(front_end, path, env={"KVWINDOW": "64+32"})
    assert facts["read"] == [(3, "length", None)] * 11 + [(0, "length", "max_model_len")] * 2
    assert facts["over"]
    assert facts["open"] == 0
