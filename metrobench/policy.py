"""What happens to a session's KV cache as it grows: the policy syntax, parsed once."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from metrobench.errors import UsageError

MAX_WINDOW = 1_048_576
JOIN_CHUNK = 64
"""A joining session's context enters the engine in chunks of at least so many tokens: small enough that nobody else's
step gets long, and that the blocks it holds meanwhile cost few sessions."""

UNBOUNDED = "unbounded"
WINDOW = "window"
SINKS = "sinks"
RECYCLE = "recycle"

_EXAMPLES = "use unbounded, window:W, window:W+S or recycle:W, for example window:1024+16"


@dataclass(frozen=True, slots=True)
class KvPolicy:
    """A KV policy as the engine applies it. Tokens, rounded up to whole blocks where the engine rounds."""

    kind: str
    """`unbounded`, `window` (vLLM's own sliding window), `sinks` (the plugin's sinks and window) or `recycle` (the
    context closed and its last W tokens encoded again whenever it reaches 2 W)."""
    window: int = 0
    """W: tokens kept behind the newest one; 0 when unbounded."""
    sinks: int = 0
    """S: first tokens kept for ever."""

    @property
    def bounded(self) -> bool:
        """True where a session's resident tokens stop growing."""
        return self.kind != UNBOUNDED

    @property
    def full_tokens(self) -> int:
        """Resident tokens of a session at rest once it is full (S + W); 0 when it never is."""
        return self.window + self.sinks

    @property
    def most_tokens(self) -> int:
        """Largest context of a session between two frames that the policy itself allows; 0: no limit."""
        return 2 * self.window if self.kind == RECYCLE else self.full_tokens

    def on_blocks(self, block_size: int) -> KvPolicy:
        """The policy in force on blocks of `block_size` tokens."""
        if self.kind not in (WINDOW, SINKS):
            return self
        return replace(self, window=_round_up(self.window, block_size), sinks=_round_up(self.sinks, block_size))

    def __str__(self) -> str:
        if not self.bounded:
            return self.kind
        if self.kind == RECYCLE:
            return f"recycle:{self.window}"
        return f"window:{self.window}+{self.sinks}" if self.kind == SINKS else f"window:{self.window}"


def parse_policy(text: str, block_size: int = 1) -> KvPolicy:
    """`unbounded`, `window:W`, `window:W+S` (S may be 0) or `recycle:W`, on blocks of `block_size` tokens.

    Raises UsageError.
    """
    if text == UNBOUNDED:
        return KvPolicy(UNBOUNDED)
    match = re.fullmatch(r"(?:window:(\d{1,9})(?:\+(\d{1,9}))?|recycle:(\d{1,9}))", text)
    if not match:
        raise UsageError(f"--kv {text!r} is not a KV policy", _EXAMPLES)
    window, sinks = int(match[1] or match[3]), int(match[2] or 0)
    if not 1 <= window <= MAX_WINDOW:
        raise UsageError(f"--kv {text!r}: the window must be 1 to {MAX_WINDOW} tokens")
    if sinks > MAX_WINDOW:
        raise UsageError(f"--kv {text!r}: the sinks must be 0 to {MAX_WINDOW} tokens")
    kind = RECYCLE if match[3] else WINDOW if match[2] is None else SINKS
    return KvPolicy(kind, window, sinks).on_blocks(block_size)


def most_in_flight(frame_tokens: int, block_size: int) -> int:
    """I: most tokens of one session that the engine is given and has not done; whole blocks."""
    return _round_up(max(JOIN_CHUNK, frame_tokens), block_size)


def peak_blocks(policy: KvPolicy, in_flight: int, block_size: int) -> int:
    """Most blocks one session of a bounded policy holds: S/b + ceil((W - 1 + I)/b) + 1 (measurement.md).

    `in_flight`: I, the most tokens one frame can have in flight. A recycled context holds up to 2 W + I tokens.
    """
    if policy.kind == RECYCLE:
        return -(-(policy.most_tokens + in_flight) // block_size)
    behind = policy.window - 1 + in_flight
    return -(-policy.sinks // block_size) - (-behind // block_size) + 1


def kv_sessions(
    policy: KvPolicy,
    pool_tokens: int,
    in_flight: int,
    lifetime_tokens: int,
    block_size: int = 16,
    beside_tokens: int = 0,
) -> int:
    """Sessions whose KV fits into a pool: for ever where the policy bounds it, for `lifetime_tokens` each otherwise.

    One block of the pool is vLLM's null block. 16 tokens a block is vLLM's default on a GPU. `beside_tokens`: what one
    session takes of the same memory outside this KV cache, in tokens of it.
    """
    blocks = pool_tokens // block_size - 1
    unbounded = -(-lifetime_tokens // block_size)
    per_session = peak_blocks(policy, in_flight, block_size) if policy.bounded else unbounded
    per_session += -(-beside_tokens // block_size)
    return max(0, blocks // max(1, per_session))


def _round_up(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size) * block_size
