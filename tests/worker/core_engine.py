"""Real sessions on an EngineCore whose scheduler can be looked into. Each runs in a fork of a process that has loaded
vLLM: see `ledger`."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

from metrobench.policy import most_in_flight, parse_policy, peak_blocks
from metrobench.profiles import load_profile
from metrobench.worker import preload
from metrobench.worker.arguments import engine_arguments, switch_plugin
from metrobench.worker.core_request import add_request, core_request
from metrobench.worker.engine import Chunk, EngineStats, Output
from metrobench.worker.sessions import FrameDone, Session, SessionRules
from metrobench.worker.spec import STANDIN, WorkerSpec

SESSIONS, BLOCK = 8, 32
UNGUARDED = "unguarded "
LONGEST = {False: 8192, True: 256}
"""max_model_len by whether the policy bounds a session: bounded ones roll over in the test."""
TOKENS = {False: 256, True: 10 * 256}
"""Tokens that each session is to go through, likewise."""


class CoreEngine:
    """A sessions.Engine over an EngineCore in this process."""

    def __init__(self, spec: WorkerSpec, folder: Path) -> None:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor import Executor

        switch_plugin(spec.policy)
        config = EngineArgs(**engine_arguments(spec, folder)).create_engine_config()
        self.core = EngineCore(config, Executor.get_class(config), log_stats=False)
        self.stats = EngineStats()
        self.vocab = spec.profile.stand_in.vocab
        self.outputs: dict[str, asyncio.Queue[Output]] = {}
        self.preemptions = 0
        self.longest = 0
        """Most tokens of one request in one step."""
        scheduler = self.core.scheduler
        self._preempt, self._schedule = scheduler._preempt_request, scheduler.schedule
        scheduler._preempt_request, scheduler.schedule = self._count, self._measure

    def _count(self, *args: Any, **kwargs: Any) -> None:
        self.preemptions += 1
        self._preempt(*args, **kwargs)

    def _measure(self, *args: Any, **kwargs: Any) -> Any:
        output = self._schedule(*args, **kwargs)
        self.longest = max(self.longest, *output.num_scheduled_tokens.values(), 0)
        return output

    async def stream(self, request: str, chunks: AsyncGenerator[Chunk, None]) -> AsyncIterator[Output]:
        queue = self.outputs[request] = asyncio.Queue()

        async def read() -> None:
            async for chunk in chunks:
                self._add(request, chunk)

        reader = asyncio.create_task(read())
        try:
            while True:
                yield await queue.get()
        finally:
            reader.cancel()
            self.core.abort_requests([request])

    def _add(self, request: str, chunk: Chunk) -> None:
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=chunk.decode, ignore_eos=True, detokenize=False, temperature=0.0)
        add_request(self.core, core_request(request, chunk.tokens, params, resumable=True))

    async def run(self) -> None:
        while True:
            for outputs in self.core.step()[0].values():
                for output in outputs.outputs:
                    finished = output.finish_reason is not None
                    self.outputs[output.request_id].put_nowait(Output(output.new_token_ids, finished))
            await asyncio.sleep(0)

    def computed(self, request: str) -> int:
        return int(self.core.scheduler.requests[request].num_computed_tokens)

    def held(self, request: str) -> int:
        """Blocks the request holds."""
        manager = self.core.scheduler.kv_cache_manager.coordinator.single_type_managers[0]
        return sum(not block.is_null for block in manager.req_to_blocks[request])

    @property
    def blocks_used(self) -> int:
        pool = self.core.scheduler.kv_cache_manager.block_pool
        return int(pool.num_gpu_blocks - 1 - pool.get_num_free_blocks())


class Reporter:
    """Notes what each frame left behind."""

    def __init__(self, engine: CoreEngine, rows: list[dict[str, Any]]) -> None:
        self.engine = engine
        self.rows = rows
        self.session: Session
        self.tokens = 0
        self.sent: list[int] = []
        """Tokens of the frames that were pushed and not yet answered."""
        self.over = False

    def speaks(self, frame: int, user_speaks: bool) -> bool:
        return not user_speaks

    def first_token(self, frame: int, tokens: list[int], speaking: bool) -> None:
        pass

    def frame_done(self, done: FrameDone) -> None:
        self.report(self.sent.pop(0), len(done.tokens))

    def filled(self, tokens: int) -> None:
        self.report(tokens, 1)

    def report(self, given: int, sampled: int) -> None:
        name = self.session.request
        self.tokens += given + sampled - 1
        row = {
            "tokens": self.tokens,
            "held": self.engine.held(name),
            "rollovers": self.session.rollovers,
            "session": self.session.number,
            "ledger": self.session.total,
            "engine": self.engine.computed(name),
            "sampled": sampled,
        }
        self.rows.append(row)

    def failed(self, code: str, message: str) -> None:
        self.over = True
        self.rows.append({"failed": code, "message": message})


def ledger(policy: str) -> list[dict[str, Any]]:
    """A row per answered frame: the session's ledger beside the scheduler's count of computed tokens and the blocks it
    holds; a last row when all sessions are closed. The pool is as small as the policy's sessions may have it.
    `unguarded POLICY` is the same with sessions that go on past max_model_len on the stock engine."""
    assert isinstance(preload.load(), str)
    return asyncio.run(converse(policy))


async def converse(policy: str) -> list[dict[str, Any]]:
    profile = load_profile("smoke")
    guard = not policy.startswith(UNGUARDED)
    chosen = parse_policy(policy.removeprefix(UNGUARDED), BLOCK)
    longest = LONGEST[chosen.bounded]
    in_flight = most_in_flight(profile.timing.most_tokens, BLOCK)
    each = peak_blocks(chosen, in_flight, BLOCK) if chosen.bounded else 32
    pool, arguments = SESSIONS * each * BLOCK, {"max_model_len": longest}
    spec = WorkerSpec(profile, chosen, SESSIONS, pool, STANDIN, 1, None, None, Path("/dev/null"), arguments)
    rules = SessionRules(1, 4, 40, longest, spec.policy, guard, 1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        engine = CoreEngine(spec, Path(folder))
        running = asyncio.create_task(engine.run())
        reporters = [Reporter(engine, rows) for _ in range(SESSIONS)]
        draw = random.Random(5)
        for number, reporter in enumerate(reporters, 1):
            reporter.session = Session(engine, number, rules, reporter)
            if number % 2:
                reporter.session.fill(20 * number)
            while sum(reporter.sent) < TOKENS[chosen.bounded]:
                frame = [draw.randrange(16, 2048) for _ in range(draw.randint(1, 40))]
                reporter.sent.append(len(frame))
                reporter.session.push(frame, draw.random() < 0.5)
        while any(reporter.sent and not reporter.over for reporter in reporters) and not running.done():
            await asyncio.sleep(0.01)
        if running.done():
            rows.append({"died": str(running.exception())})
            return rows
        for reporter in reporters:
            reporter.session.close()
            await reporter.session.wait_closed()
        running.cancel()
        facts = {"left": engine.blocks_used, "preemptions": engine.preemptions, "longest": engine.longest}
        rows.append(facts | {"in_flight": in_flight, "peak": each})
    return rows
