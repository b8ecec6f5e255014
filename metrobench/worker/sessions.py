"""Live sessions: one open engine request each, one frame in flight, an exact count of the tokens it holds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol, cast

import numpy as np

from metrobench.policy import SINKS, WINDOW, KvPolicy
from metrobench.worker.engine import Chunk, Engine, EngineDeadError, Output
from metrobench.worker.rollover import Context, RolloverPlan
from metrobench.worker.turnstile import Turnstile

FIRST_FILL_ID = 16
"""Fill tokens are drawn from here up: below are markers."""
FILL, ROLLOVER = -1, -2
"""Numbers of the chunks that are no frames."""


@dataclass(frozen=True, slots=True)
class SessionRules:
    """What every session of a worker has in common. Tokens."""

    listening: int
    """Decoded in a frame in which the model only listens; at least 1."""
    speaking: int
    """Decoded in a frame in which it speaks; at least 1."""
    tokens_in: int
    """Most tokens that one frame of audio brings."""
    max_model_len: int
    policy: KvPolicy
    """What stays resident."""
    guard: bool
    """Start a bounded session's context again before it reaches max_model_len, and close any session rather than let
    the engine pass it."""
    seed: int

    @property
    def most_tokens(self) -> int:
        """Most tokens that one frame adds to the context."""
        return self.tokens_in + max(self.listening, self.speaking)


@dataclass(frozen=True, slots=True)
class FrameDone:
    """The complete answer to one frame."""

    frame: int
    tokens: list[int]
    """All tokens sampled in it, the discarded last one included."""
    speaking: bool
    resident: int
    """Tokens the session holds now, the window applied."""
    rollover: bool = False
    """The session's context was built again just before this frame."""


class Listener(Protocol):
    """Who is told about a session. Called on the event loop; must not raise."""

    def speaks(self, frame: int, user_speaks: bool) -> bool:
        """Asked just before a frame goes to the engine: does the model speak in it?"""
        ...

    def first_token(self, frame: int, tokens: list[int], speaking: bool) -> None:
        """The first tokens of a frame came, and more will follow."""
        ...

    def frame_done(self, done: FrameDone) -> None:
        """A frame is complete."""
        ...

    def filled(self, tokens: int) -> None:
        """The fill is in place."""
        ...

    def failed(self, code: str, message: str) -> None:
        """The session ended: context_exhausted, kv_exhausted, engine_dead or engine_error."""
        ...


@dataclass(slots=True)
class _Flight:
    """The chunk the engine is working on."""

    frame: int
    """FILL and ROLLOVER are none of the listener's."""
    tokens: list[int]
    decode: int
    """Tokens to be sampled."""
    speaking: bool = False
    sampled: list[int] = field(default_factory=list)


class Session:
    """One conversation. `push` and `fill` never wait; what happens is told to the listener."""

    def __init__(
        self, engine: Engine, number: int, rules: SessionRules, listener: Listener, turnstile: Turnstile | None = None
    ) -> None:
        """`turnstile`: decides when a chunk goes to the engine; None: as soon as it is there."""
        self.number = number
        self.request = f"session-{number}"
        """Name of the engine request that holds the context now."""
        self.rollovers = 0
        """Times the context was built again."""
        self.total = 0
        """Tokens in the context: each input adds its own + sampled - 1 (the last sampled one is discarded)."""
        self.frames = 0
        """Frames answered."""
        self.budget: float | None = None
        """B in seconds where the client named its own; None: the worker's."""
        self._engine = engine
        self._rules = rules
        self._listener = listener
        self._turnstile = turnstile
        self._queue: deque[tuple[list[int], bool]] = deque()
        self._complete: deque[float] = deque()
        """When each frame that is not answered yet was complete, CLOCK_MONOTONIC."""
        self._latencies: list[float] = []
        self._fill = 0
        self._context = Context(rules.policy)
        self._plan = RolloverPlan(rules.policy, rules.most_tokens, rules.max_model_len, number)
        self._again: list[int] = []
        self._rolling = False
        self._rolled = False
        self._silence = False
        self._next = 0
        self._flight: _Flight | None = None
        self._wake = asyncio.Event()
        self._closed = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def backlog(self) -> int:
        """Complete frames not yet given to the engine."""
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Nothing queued and nothing in flight."""
        return self._flight is None and not self._queue and not self._fill and not self._again

    @property
    def resident(self) -> int:
        """Tokens in the KV cache, the window applied."""
        policy = self._rules.policy
        return min(self.total, policy.full_tokens) if policy.kind in (WINDOW, SINKS) else self.total

    @property
    def largest_fill(self) -> int:
        """Most tokens that leave room for the fill's own sampled token."""
        return self._rules.max_model_len - 1

    def push(self, tokens: list[int], user_speaks: bool) -> None:
        """Queue one complete frame."""
        self._queue.append((tokens, user_speaks))
        self._complete.append(monotonic())
        self._wake.set()

    def latencies(self, now: float, overdue: float) -> list[float]:
        """Seconds from complete audio to complete answer of the frames answered since the last call, and how long each
        one that waits for more than `overdue` seconds has waited by `now`."""
        answered, self._latencies = self._latencies, []
        return answered + [now - since for since in self._complete if now - since > overdue]

    def fill(self, tokens: int) -> None:
        """Put `tokens` random tokens of this session's own into the context, ahead of any audio."""
        self._fill = tokens
        self._wake.set()

    def close(self) -> None:
        """End the session; its request is aborted and its blocks come back. Does nothing the second time."""
        self._closed = True
        self._task.cancel()

    async def wait_closed(self) -> None:
        """Return once the request is aborted."""
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._serve()
            while self._rolling:
                self._begin_again()
                await self._serve()
            self._fail("engine_error", "the engine ended the session")
        except EngineDeadError as error:
            self._fail("engine_dead", str(error))
        except Exception as error:
            self._fail("engine_error", f"{type(error).__name__}: {error}")
        finally:
            self._leave()

    async def _serve(self) -> None:
        """One engine request, from its first chunk until it ends or the context must be built again."""
        outputs = cast("AsyncGenerator[Output, None]", self._engine.stream(self.request, self._chunks(self.request)))
        async with aclosing(outputs):
            async for output in outputs:
                self._take(output)
                if self._rolling:
                    return

    def _begin_again(self) -> None:
        """A new request whose first chunk is what the policy keeps of the old one, which is gone by now."""
        self._rolling = False
        self.rollovers += 1
        self.request = f"session-{self.number}.{self.rollovers}"
        self._again = self._context.kept()
        self._plan.began_again()
        self.total = 0

    async def _chunks(self, request: str) -> AsyncGenerator[Chunk, None]:
        while not self._closed and self.request == request:
            chunk = None
            if self._flight is None and not self._rolling:
                chunk = self._take_next() if self._turnstile is None else await self._in_turn(self._turnstile)
            if chunk is not None:
                yield chunk
            elif not self._closed:
                self._wake.clear()
                await self._wake.wait()

    async def _in_turn(self, turnstile: Turnstile) -> Chunk | None:
        """The next chunk once it is this session's turn; None where there is none."""
        if not (self._again or self._fill or self._queue):
            return None
        await turnstile.enter(self.number, self._complete[0] if self._complete else monotonic(), self.budget)
        chunk = None if self._closed else self._take_next()
        if chunk is None:
            turnstile.leave(self.number)
        return chunk

    def _leave(self) -> None:
        if self._turnstile is not None:
            self._turnstile.leave(self.number)

    def _take_next(self) -> Chunk | None:
        if self._again:
            tokens, self._again = self._again, []
            self._flight = _Flight(ROLLOVER, tokens, 1)
            return Chunk(tokens, 1)
        if self._fill:
            tokens, self._fill = self._fill_tokens(self._fill), 0
            self._flight = _Flight(FILL, tokens, 1)
            return Chunk(tokens, 1)
        if not self._queue:
            return None
        tokens, user_speaks = self._queue.popleft()
        speaking = self._listener.speaks(self._next, user_speaks)
        decode = self._rules.speaking if speaking else self._rules.listening
        if self._rules.guard and self.total + len(tokens) + decode > self._rules.max_model_len:
            limit = (
                f"{self.total} + {len(tokens)} + {decode} tokens would pass max_model_len {self._rules.max_model_len}"
            )
            self._fail("context_exhausted", limit)
            return None
        self._flight = _Flight(self._next, tokens, decode, speaking)
        self._silence = not user_speaks and not speaking
        self._next += 1
        return Chunk(tokens, decode)

    def _fill_tokens(self, count: int) -> list[int]:
        random: Any = np.random.default_rng([self._rules.seed, self.number])
        ids: list[int] = random.integers(min(FIRST_FILL_ID, self._engine.vocab - 1), self._engine.vocab, count).tolist()
        return ids

    def _take(self, output: Output) -> None:
        flight = self._flight
        if flight is None:
            return
        if output.ended:
            self._fail(output.ended, f"the engine ended the session at {self.total} tokens")
            return
        first = not flight.sampled
        flight.sampled += output.tokens
        if not output.finished:
            if first and output.tokens and flight.frame >= 0:
                self._listener.first_token(flight.frame, output.tokens, flight.speaking)
            return
        if self._rules.guard and len(flight.sampled) != flight.decode:
            self._fail("engine_error", f"the engine decoded {len(flight.sampled)} tokens, not {flight.decode}")
            return
        self.total += len(flight.tokens) + len(flight.sampled) - 1
        self._flight = None
        self._leave()
        self._wake.set()
        if flight.frame == ROLLOVER:
            self._rolled = True
            return
        self._context.add(flight.tokens)
        self._context.add(flight.sampled[:-1])
        silence = flight.frame == FILL or self._silence
        self._rolling = self._rules.guard and self._plan.due(self.total, silence)
        if flight.frame == FILL:
            self._listener.filled(len(flight.tokens))
            return
        self.frames += 1
        self._engine.stats.frames += 1
        self._engine.stats.engine_seconds += output.engine_seconds
        self._latencies.append(monotonic() - self._complete.popleft())
        rolled, self._rolled = self._rolled, False
        self._listener.frame_done(FrameDone(flight.frame, flight.sampled, flight.speaking, self.resident, rolled))

    def _fail(self, code: str, message: str) -> None:
        if not self._closed:
            self._closed = True
            self._listener.failed(code, message)
