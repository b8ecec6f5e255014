"""The attention mask as arithmetic: what a query sees, what may be freed, what must be held. Pure Python and NumPy.

With sinks S, window W and align G (all multiples of the block size B) the query at position t sees

    V(t) = { k <= t :  k < S   or   k >= G*floor(t/G) - W }                (aligned, every backend)
    V(t) = { k <= t :  k < S   or   k >  t - W }                           (exact, Triton only; any S and W)

V depends on t alone, so the KV of a token is a function of the tokens before it: chunking, batching, preemption and
other requests change nothing, and prefix-cache hits stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def cdiv(a: int, b: int) -> int:
    """ceil(a / b) for b > 0."""
    return -(-a // b)


@dataclass(frozen=True, slots=True)
class Window:
    """An effective window. Tokens; in aligned mode multiples of the KV block size."""

    window: int
    """W: tokens kept behind the newest one."""
    sinks: int
    """S: first tokens kept for ever; 0 for a plain sliding window."""
    align: int
    """G: in aligned mode the window starts at multiples of G. Query rows are cut at multiples of G in both modes."""
    exact: bool = False

    def start(self, position: Any) -> Any:
        """First window position of the query at `position` (int or integer array); may be negative or below S."""
        if self.exact:
            return position - self.window + 1
        return position // self.align * self.align - self.window

    def visible(self, query: Any, key: Any) -> Any:
        """Whether the query at position `query` sees the key at position `key`; broadcasts over arrays."""
        return (key <= query) & ((key < self.sinks) | (key >= self.start(query)))

    def within(self, length: int, block: int) -> Window:
        """The smallest window with the same mask for positions below `length`: what lies beyond costs rows."""
        longest = cdiv(length, block) * block
        window, sinks, align = (min(tokens, longest) for tokens in (self.window, self.sinks, self.align))
        return Window(window, sinks, align, self.exact)

    def sink_blocks(self, block: int) -> int:
        """Blocks that hold the sinks; the last one may be part sink, part window (exact mode)."""
        return cdiv(self.sinks, block)

    def dead_blocks(self, computed: int, block: int) -> tuple[int, int]:
        """Half-open range of block indices that no query at position >= `computed` sees."""
        low = self.sink_blocks(block)
        return low, max(low, self.start(computed) // block)

    def columns(self, block: int) -> int:
        """Width of a compact block table: the most blocks a row of queries within one multiple of G sees."""
        if self.exact:
            return self.sink_blocks(block) + cdiv(self.window + self.align - 1, block) + 1
        return (self.sinks + self.window + self.align) // block

    def resident_blocks(self, in_flight: int, block: int) -> int:
        """Most blocks one request ever holds when at most `in_flight` of its tokens are scheduled and not yet done.

        A pool of `blocks` (one of them vLLM's null block) never runs dry with N requests when
        N * resident_blocks(in_flight, block) <= blocks - 1.
        """
        sinks = self.sink_blocks(block)
        if self.exact:
            return sinks + cdiv(self.window - 1 + in_flight, block) + 1
        return sinks + cdiv(self.window + self.align - 1 + in_flight, block)

    def __str__(self) -> str:
        return f"window:{self.window}+{self.sinks}" + (" exact" if self.exact else f" align {self.align}")
