"""What happens to a session's KV cache as it grows: the policy syntax, parsed once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from metrobench.errors import UsageError

MAX_WINDOW = 1_048_576


@dataclass(frozen=True, slots=True)
class KvPolicy:
    """A KV policy as the engine applies it. Tokens, rounded up to whole blocks."""

    kind: str
    """`unbounded` or `window` (vLLM's own sliding window)."""
    window: int = 0
    """W: tokens kept behind the newest one; 0 when unbounded."""
    sinks: int = 0
    """S: first tokens kept for ever."""

    @property
    def bounded(self) -> bool:
        """True where a session's resident tokens stop growing."""
        return self.kind != "unbounded"

    @property
    def full_tokens(self) -> int:
        """Resident tokens of a session at rest once it is full (S + W); 0 when it never is."""
        return self.window + self.sinks

    def __str__(self) -> str:
        if not self.bounded:
            return self.kind
        return f"window:{self.window}+{self.sinks}" if self.sinks else f"window:{self.window}"


def parse_policy(text: str, block_size: int = 1) -> KvPolicy:
    """`unbounded` or `window:W`, W rounded up to whole blocks. Raises UsageError."""
    if text == "unbounded":
        return KvPolicy("unbounded")
    match = re.fullmatch(r"window:(\d{1,9})", text)
    if not match:
        raise UsageError(f"--kv {text!r} is not a KV policy", "use unbounded or window:W, for example window:1024")
    window = int(match[1])
    if not 1 <= window <= MAX_WINDOW:
        raise UsageError(f"--kv {text!r}: the window must be 1 to {MAX_WINDOW} tokens")
    return KvPolicy("window", -(-window // block_size) * block_size)


def peak_blocks(policy: KvPolicy, in_flight: int, block_size: int) -> int:
    """Most blocks one session of a bounded policy holds: S/b + ceil((W - 1 + I)/b) + 1 (measurement.md).

    `in_flight`: I, the most tokens one frame can have in flight.
    """
    behind = policy.window - 1 + in_flight
    return -(-policy.sinks // block_size) - (-behind // block_size) + 1


def kv_sessions(policy: KvPolicy, pool_tokens: int, in_flight: int, lifetime_tokens: int, block_size: int = 16) -> int:
    """Sessions whose KV fits into a pool: for ever where the policy bounds it, for `lifetime_tokens` each otherwise.

    One block of the pool is vLLM's null block. 16 tokens a block is vLLM's default on a GPU.
    """
    blocks = pool_tokens // block_size - 1
    unbounded = -(-lifetime_tokens // block_size)
    per_session = peak_blocks(policy, in_flight, block_size) if policy.bounded else unbounded
    return max(0, blocks // max(1, per_session))
