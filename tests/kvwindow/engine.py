"""An engine in this process, driven by hand: streaming sessions, one-shot requests, and a look at its blocks."""

from __future__ import annotations

import os
import pickle
import random
import signal
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from metrobench.worker.core_request import add_request, core_request

HANG = 150.0


def forked(function: Callable[..., Any], *args: Any, env: dict[str, str] | None = None) -> Any:
    """`function(*args)` in a forked child, since one process holds one engine; its result, or its error here."""
    read, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="engine-") as left:  # vLLM leaves a file behind for each engine
        pid = os.fork()
        if pid == 0:
            tempfile.tempdir = left
            _child(write, function, args, env or {})
        os.close(write)
        try:
            data = _read(read, HANG)
        finally:
            os.close(read)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if not data:
        raise AssertionError("the engine's process died without an answer")
    good, value = pickle.loads(data)
    if not good:
        raise EngineError(value)
    return value


class EngineError(Exception):
    """What the child raised, with its traceback as text."""


def _child(write: int, function: Callable[..., Any], args: tuple[Any, ...], env: dict[str, str]) -> None:
    os.environ.update(env)
    try:
        result = pickle.dumps((True, function(*args)))
    except BaseException:
        result = pickle.dumps((False, traceback.format_exc()))
    with os.fdopen(write, "wb") as pipe:
        pipe.write(struct.pack("<Q", len(result)) + result)
    os._exit(0)


def _read(fd: int, seconds: float) -> bytes:
    import select

    data, deadline = b"", time.monotonic() + seconds
    while select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(fd, 1 << 20)
        if not part:
            break
        data += part
    return data[8:] if len(data) >= 8 and len(data) == 8 + struct.unpack("<Q", data[:8])[0] else b""


@dataclass
class Answer:
    """What one chunk got: tokens, the top log-probabilities of each, and how it ended."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[dict[int, float]] = field(default_factory=list)
    finish: str | None = None
    stop_reason: int | str | None = None


class Engine:
    """vLLM's EngineCore with sessions. Greedy, so every run of the same chunks gives the same tokens."""

    def __init__(self, model: str, **options: Any) -> None:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor.abstract import Executor

        defaults: dict[str, Any] = {
            "model": model,
            "skip_tokenizer_init": True,
            "dtype": "float32",
            "enforce_eager": True,
            "block_size": 32,
            "max_model_len": 4096,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 256,
            "enable_prefix_caching": False,
            "num_gpu_blocks_override": 64,
            "generation_config": "vllm",
        }
        config = EngineArgs(**(defaults | options)).create_engine_config()
        self.core = EngineCore(config, Executor.get_class(config), log_stats=False)
        self.scheduler = self.core.scheduler
        self.answers: dict[str, list[Answer]] = {}

    def send(
        self, name: str, tokens: list[int], max_tokens: int = 3, resumable: bool = True, logprobs: int = 5
    ) -> None:
        """A session's next chunk (or a one-shot request); the answer appears in `answers[name]`."""
        from vllm import SamplingParams

        self.answers.setdefault(name, []).append(Answer())
        params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True, logprobs=5)
        self._add(core_request(name, tokens, params, resumable=resumable))

    def close(self, name: str) -> None:
        """The client ends the session."""
        self.send(name, [0], resumable=False)
        self.answers[name].pop()

    def abort(self, *names: str) -> None:
        """The client is gone."""
        self.core.abort_requests(list(names))

    def step(self) -> None:
        """One engine step; its outputs go to the oldest open answer of each session."""
        outputs, _ = self.core.step_fn()
        for part in (outputs or {}).values():
            for output in part.outputs:
                self._take(output)

    def run(self, steps: int = 5000) -> None:
        """Step until every answer is complete. Raises AssertionError when `steps` do not suffice."""
        for _ in range(steps):
            if all(answer.finish for answers in self.answers.values() for answer in answers):
                return
            self.step()
        raise AssertionError(
            f"still open after {steps} steps: {[k for k, v in self.answers.items() if not v[-1].finish]}"
        )

    def settle(self) -> None:
        """Step until nothing is left to do, so that finished requests are cleared everywhere."""
        for _ in range(20):
            self.step()

    @property
    def pool(self) -> Any:
        return self.scheduler.kv_cache_manager.block_pool

    @property
    def free_blocks(self) -> int:
        return int(self.pool.get_num_free_blocks())

    @property
    def manager(self) -> Any:
        """The windowed layers' block manager where there is one, else the first."""
        managers = self.scheduler.kv_cache_manager.coordinator.single_type_managers
        return next((one for one in managers if hasattr(one.kv_cache_spec, "mask")), managers[0])

    def held(self, name: str) -> int:
        """Blocks the session holds."""
        return sum(not block.is_null for block in self.manager.req_to_blocks.get(name, ()))

    def _add(self, request: Any) -> None:
        add_request(self.core, request)

    def _take(self, output: Any) -> None:
        answers = self.answers.get(output.request_id, ())
        answer = next((one for one in answers if not one.finish), None)
        assert answer is not None, f"an answer nobody asked for: {output}"
        answer.tokens += output.new_token_ids
        if (top := output.new_logprobs) is not None:
            for ids, values in zip(top.logprob_token_ids, top.logprobs, strict=True):
                answer.logprobs.append({int(i): float(v) for i, v in zip(ids, values, strict=True)})
        if output.finish_reason is not None:
            answer.finish, answer.stop_reason = str(output.finish_reason), output.stop_reason


@dataclass
class Turn:
    """One answered chunk: everything the session had computed before its first new token, then the answer."""

    context: list[int]
    answer: Answer


def converse(
    engine: Engine,
    seeds: dict[str, int],
    rounds: int,
    sizes: list[int],
    vocabulary: int,
    tail: Sequence[int] = (),
) -> dict[str, list[Turn]]:
    """Concurrent sessions of `rounds` chunks of random sizes; every session's turns. Asks nothing of the timing.

    tail: what each chunk ends with.
    """
    randoms = {name: random.Random(seed) for name, seed in seeds.items()}
    contexts: dict[str, list[int]] = {name: [] for name in seeds}
    turns: dict[str, list[Turn]] = {name: [] for name in seeds}
    waiting = dict.fromkeys(seeds, 0)

    def feed(name: str) -> None:
        number = randoms[name].choice(sizes)
        chunk = [randoms[name].randrange(3, vocabulary) for _ in range(number)]
        chunk += tail
        contexts[name] += chunk
        engine.send(name, chunk)

    for name in seeds:
        feed(name)
    for _ in range(100_000):
        engine.step()
        for name in seeds:
            answer = engine.answers[name][-1]
            if answer.finish and waiting[name] < rounds:
                waiting[name] += 1
                turns[name].append(Turn(list(contexts[name]), answer))
                contexts[name] += answer.tokens[:-1]  # vLLM drops the last sampled token of a chunk
                if waiting[name] < rounds:
                    feed(name)
        if all(done == rounds for done in waiting.values()):
            return turns
    raise AssertionError(f"sessions stopped answering: {waiting}")


@contextmanager
def poisoned(engine: Engine) -> Iterator[None]:
    """Every block that nobody holds is NaN, from now on: what the mask hides must not matter.

    A block is zeroed when it is handed out, because the CPU kernel multiplies unwritten places of a held block by 0.
    """
    import torch

    caches = engine.core.model_executor.driver_worker.worker.model_runner.kv_caches
    free_blocks, get_new_blocks = engine.pool.free_blocks, engine.pool.get_new_blocks

    def fill(blocks: list[Any], value: float) -> None:
        ids = torch.tensor([block.block_id for block in blocks], dtype=torch.long)
        for cache in caches:
            cache[ids] = value

    def free(blocks: Any) -> None:
        blocks = list(blocks)
        free_blocks(blocks)
        fill([block for block in blocks if not block.is_null and block.ref_cnt == 0], float("nan"))

    def new(number: int) -> list[Any]:
        blocks: list[Any] = get_new_blocks(number)
        fill(blocks, 0.0)
        return blocks

    fill(engine.pool.blocks, float("nan"))
    engine.pool.free_blocks, engine.pool.get_new_blocks = free, new
    try:
        yield
    finally:
        engine.pool.free_blocks, engine.pool.get_new_blocks = free_blocks, get_new_blocks
