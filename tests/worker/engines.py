"""A scripted engine: behaves as vLLM's streaming sessions do, without vLLM."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from metrobench.worker.engine import Chunk, EngineDeadError, EngineStats, Output


class ScriptedEngine:
    """Like vLLM it asks for the next chunk as soon as it has one; unlike it, it notes whatever it is given."""

    vocab = 4096

    def __init__(self) -> None:
        self.stats = EngineStats()
        self.chunks: dict[str, list[Chunk]] = {}
        self.ended: list[str] = []
        self.most_waiting = 0
        """Most chunks any request ever had submitted and unanswered."""
        self.gate = asyncio.Event()
        """Clear it to hold every answer back after its first token."""
        self.gate.set()
        self.dead = asyncio.Event()
        self.ends = ""
        """Not empty: the next chunk is answered by the end of its session."""

    async def stream(self, request: str, chunks: AsyncGenerator[Chunk, None]) -> AsyncIterator[Output]:
        waiting: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self.chunks[request] = []

        async def read() -> None:
            async for chunk in chunks:
                self.chunks[request].append(chunk)
                waiting.put_nowait(chunk)
                self.most_waiting = max(self.most_waiting, waiting.qsize() + busy)
            waiting.put_nowait(None)

        busy = 0
        reader = asyncio.create_task(read())
        try:
            while chunk := await waiting.get():
                busy = 1
                async for output in self._answer(chunk):
                    if output.finished:
                        busy = 0
                    yield output
        finally:
            reader.cancel()
            self.ended.append(request)

    async def _answer(self, chunk: Chunk) -> AsyncIterator[Output]:
        if self.ends:
            yield Output([], True, self.ends)
            return
        if chunk.decode > 1:
            yield Output([100], False)
        opened = asyncio.create_task(self.gate.wait())
        died = asyncio.create_task(self.dead.wait())
        try:
            await asyncio.wait((opened, died), return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
            died.cancel()
        if self.dead.is_set():
            raise EngineDeadError("the engine process was killed by signal 9")
        yield Output([100 + index for index in range(min(1, chunk.decode - 1), chunk.decode)], True)


async def settle(turns: int = 20) -> None:
    """Let everything that can run without waiting run."""
    for _ in range(turns):
        await asyncio.sleep(0)
