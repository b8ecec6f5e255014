"""The adapter to vLLM's AsyncLLM: requests in, tokens out, what the engine says of itself, and its end."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from metrobench.errors import UnreachableError, UsageError
from metrobench.policy import WINDOW
from metrobench.worker import cause
from metrobench.worker.arguments import (
    check_names,
    engine_arguments,
    first_line,
    room,
    slow_down,
    switch_plugin,
    tokens_in_flight,
)
from metrobench.worker.outputs import Gather
from metrobench.worker.spec import HUB, WorkerSpec

ENDS = {"max_model_len": "context_exhausted", "kv_pool_exhausted": "kv_exhausted"}
"""Stop reasons of the guard scheduler, and the code a session then fails with."""


class EngineDeadError(Exception):
    """The engine process is gone; every session of the worker is lost."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One input of a session: context tokens, then `decode` tokens (at least 1) to sample."""

    tokens: list[int]
    decode: int


@dataclass(frozen=True, slots=True)
class Output:
    """Sampled tokens, in order; `finished` with the last ones of a chunk."""

    tokens: list[int]
    finished: bool
    ended: str = ""
    """Not empty: the engine ended the session, for this reason."""
    engine_seconds: float = 0.0
    """With the last tokens of a chunk: from handing it to the engine until the engine had sampled them."""


@dataclass(slots=True)
class EngineStats:
    """What the engine last said about itself."""

    kv_usage: float | None = None
    running: float | None = None
    waiting: float | None = None
    deferred: float | None = None
    prefix_hits: float = 0.0
    preemptions: float = 0.0
    steps: int = 0
    frames: int = 0
    """Frames answered."""
    engine_seconds: float = 0.0
    """Sum of their Output.engine_seconds."""


class Engine(Protocol):
    """What sessions and gateway need of an engine."""

    stats: EngineStats
    vocab: int
    """Token ids run from 0 to vocab - 1."""

    def stream(self, request: str, chunks: AsyncGenerator[Chunk, None]) -> AsyncIterator[Output]:
        """Answers to `chunks`, one request that stays open. Closing the iterator aborts it and frees its blocks.

        Raises EngineDeadError.
        """
        ...


class VllmEngine:
    """vLLM's AsyncLLM with its engine process."""

    def __init__(self, spec: WorkerSpec, folder: Path) -> None:
        """Start the engine; needs a running event loop. Raises UnreachableError, UsageError."""
        from vllm import SamplingParams
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.engine.protocol import StreamingInput
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.async_llm import AsyncLLM

        self.stats = EngineStats()
        self._input: Any = StreamingInput
        self._params: dict[int, Any] = {}
        self._make_params: Callable[[int], Any] = lambda decode: SamplingParams(
            max_tokens=decode,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            temperature=0.0,
            **(
                {"skip_clone": True} if "skip_clone" in SamplingParams.__struct_fields__ else {}
            ),  # or vLLM deep-copies them every frame
        )
        check_names(spec.vllm_args, [each.name for each in fields(AsyncEngineArgs)])
        arguments = engine_arguments(spec, folder)
        switch_plugin(spec.policy)
        slow_down(spec.slow, arguments)
        logged = cause.size(spec.log)
        try:
            args = AsyncEngineArgs(**arguments)
            self._llm = AsyncLLM.from_engine_args(args, stat_loggers=[self._stat_logger()])
        except OSError as error:
            if not spec.weights.startswith(HUB):
                raise UnreachableError(f"vLLM does not start: {first_line(error)}") from error
            raise UsageError(f"--weights {spec.weights}: {first_line(error)}") from error
        except (TypeError, ValueError) as error:
            raise UsageError(f"vLLM refuses these arguments: {first_line(error)}") from error
        except RuntimeError as error:
            name, message = cause.last_raised(spec.log, logged) or ("", first_line(error))
            if name in ("TypeError", "ValueError"):
                raise UsageError(f"vLLM refuses these arguments: {message}") from error
            raise UnreachableError(f"vLLM does not start: {message}") from error
        self._gather = Gather(self._llm.output_processor)
        self._given: dict[str, float] = {}
        """When the engine got each request's last input, CLOCK_MONOTONIC."""
        config = self._llm.vllm_config
        self.block_size = int(config.cache_config.block_size)
        self.num_blocks = int(config.cache_config.num_gpu_blocks)
        self.max_model_len = int(config.model_config.max_model_len)
        self.vocab = int(config.model_config.get_vocab_size())
        self.policy = spec.policy.on_blocks(self.block_size)
        self.kv_sessions, self.peak_blocks = room(
            self.policy, tokens_in_flight(config), self.block_size, self.num_blocks
        )
        window = int(config.cache_config.sliding_window or 0)
        if window != (self.policy.window if self.policy.kind == WINDOW else 0):
            raise UsageError(
                f"--kv {self.policy}: this model does not take that window (the engine has {window or 'none'})"
            )

    def _stat_logger(self) -> Callable[..., Any]:
        from vllm.v1.metrics.loggers import StatLoggerBase

        stats = self.stats

        class Logger(StatLoggerBase):  # type: ignore[misc]
            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
                pass

            def record(self, scheduler_stats: Any = None, iteration_stats: Any = None, *_: Any, **__: Any) -> None:
                _take_stats(stats, scheduler_stats, iteration_stats)

            def log_engine_initialized(self) -> None:
                pass

        return Logger

    async def stream(self, request: str, chunks: AsyncGenerator[Chunk, None]) -> AsyncIterator[Output]:
        """See Engine.stream."""
        from vllm.v1.engine.exceptions import EngineDeadError as VllmDead

        outputs = self._llm.generate(self._inputs(request, chunks), self._sampling(1), request_id=request)
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    part = output.outputs[0]
                    ended = ENDS.get(str(part.stop_reason), "")
                    finished = part.finish_reason is not None
                    worked = self._gather.ended.get(request, 0.0) - self._given[request] if finished else 0.0
                    yield Output(list(part.token_ids), finished, ended, max(0.0, worked))
        except VllmDead as error:
            raise EngineDeadError("the engine process is gone") from error
        finally:
            self._given.pop(request, None)
            self._gather.ended.pop(request, None)

    async def _inputs(self, request: str, chunks: AsyncGenerator[Chunk, None]) -> AsyncGenerator[Any, None]:
        async for chunk in chunks:
            self._given[request] = monotonic()
            yield self._input(prompt=self._prompt(chunk.tokens), sampling_params=self._sampling(chunk.decode))

    @staticmethod
    def _prompt(tokens: list[int]) -> dict[str, Any]:
        """Marked as rendered where vLLM knows the mark (0.32): it then skips its text path."""
        return {"type": "token", "prompt_token_ids": tokens} if _knows_rendered() else {"prompt_token_ids": tokens}

    def _sampling(self, decode: int) -> Any:
        if decode not in self._params:
            self._params[decode] = self._make_params(decode)
        return self._params[decode]

    @property
    def dead(self) -> bool:
        """True once the engine process is gone."""
        return bool(self._llm.errored)

    def pid(self) -> int:
        """The engine process."""
        return int(self._processes()[0].pid)

    def _processes(self) -> list[Any]:
        return list(self._llm.engine_core.resources.engine_manager.processes)

    async def died(self) -> str:
        """Return, with the reason, when the engine process ends."""
        process = self._processes()[0]
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(process.sentinel, _resolve, gone)
        try:
            await gone
        finally:
            asyncio.get_running_loop().remove_reader(process.sentinel)
        return _process_end(await _exit_code(process))


async def _exit_code(process: Any) -> int | None:
    """The exit code of an ended process. vLLM's own watcher may reap it first and notes the code a moment later."""
    for _ in range(100):
        process.join(0.0)
        if process.exitcode is not None:
            return int(process.exitcode)
        await asyncio.sleep(0.01)
    return None


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _process_end(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the engine process was killed by signal {-code}"
    return f"the engine process ended with exit code {code}" if code is not None else "the engine process ended"


def _take_stats(stats: EngineStats, scheduler: Any, iteration: Any) -> None:
    if scheduler is not None:
        stats.steps += 1
        stats.kv_usage = float(scheduler.kv_cache_usage)
        stats.running = float(scheduler.num_running_reqs)
        stats.waiting = float(scheduler.num_waiting_reqs)
        deferred = getattr(scheduler, "num_skipped_waiting_reqs", None)
        stats.deferred = None if deferred is None else float(deferred)
        stats.prefix_hits += float(scheduler.prefix_cache_stats.hits)
    if iteration is not None:
        stats.preemptions += float(iteration.num_preempted_reqs)


@cache
def _knows_rendered() -> bool:
    return importlib.util.find_spec("vllm.inputs.engine") is not None


def device_name() -> str:
    """`cpu`, or the GPU's name."""
    from vllm.platforms import current_platform

    return "cpu" if current_platform.is_cpu() else str(current_platform.get_device_name(0))
