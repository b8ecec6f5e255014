"""When a pool of KV blocks is full: block arithmetic, exact (measurement.md, First-order collapse model). Pure.

A session's context grows by a + d - 1 tokens a frame: a come in, d are decoded, the last one sampled is discarded. It
holds ceil(T / b) blocks; the pool of P blocks, one of them vLLM's null block, is full when the sum passes P - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrobench.measure.frames import Floats, Ints
from metrobench.policy import RECYCLE, UNBOUNDED, KvPolicy, peak_blocks
from metrobench.schedule import GOLDEN

NULL_BLOCKS = 1
"""vLLM keeps one block of the pool for itself."""
FREE = KvPolicy(UNBOUNDED)
SAME = 1e-6
"""Parts of a frame within which two times are one."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The KV cache of one engine."""

    blocks: int
    """P, the null block included."""
    block_size: int
    """b, tokens."""

    @property
    def usable(self) -> int:
        """Blocks that sessions can hold: P - 1."""
        return self.blocks - NULL_BLOCKS


@dataclass(frozen=True, slots=True)
class Group:
    """Sessions of one model, rate and policy, of any age and arrival. Seconds count from one common zero."""

    starts: Floats
    """When the audio of each session begins, shape (sessions,). Its k-th frame is complete k units later."""
    unit: float
    """Seconds of audio in one frame."""
    growth: float
    """Tokens that one frame adds to the context, at least 1; whole where every frame adds the same."""
    resident: Ints
    """Tokens that each holds from the beginning, shape (sessions,)."""
    policy: KvPolicy = FREE
    """In force, on whole blocks."""
    in_flight: int = 0
    """I: most tokens of one session that the engine is given and has not done; counts where a window bounds it."""

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self.starts)

    def frames(self, t: float) -> Ints:
        """Frames that each session has completed at `t`, shape (sessions,)."""
        done: Ints = np.floor((t - self.starts) / self.unit + SAME).astype(np.int64).clip(0)
        return done


def blocks_of(tokens: Ints | Floats, block_size: int) -> Ints:
    """Blocks that contexts of so many tokens fill."""
    return (-(-tokens // block_size)).astype(np.int64)


def blocks_at(group: Group, t: float, block_size: int, *, at_peak: bool = True) -> int:
    """Blocks that a group holds at `t`. `at_peak`: windowed sessions hold what they do while a frame is in the engine,
    else what they keep between two frames."""
    return int(_blocks(group, group.frames(t), block_size, at_peak=at_peak).sum())


def _blocks(group: Group, frames: Ints, block_size: int, *, at_peak: bool = True) -> Ints:
    """Blocks of each session of a group after so many of its frames, shape (sessions,)."""
    if group.policy.kind == RECYCLE:
        return blocks_of(_recycled(group, frames), block_size)
    held = blocks_of(group.resident + group.growth * frames, block_size)
    most = most_blocks(group, block_size, at_peak=at_peak)
    return held if most is None else np.minimum(held, most)


def most_blocks(group: Group, block_size: int, *, at_peak: bool = True) -> int | None:
    """Most blocks that one session of a group holds, ever; None where it grows without end."""
    if not group.policy.bounded:
        return None
    if at_peak or group.policy.kind == RECYCLE:
        return peak_blocks(group.policy, group.in_flight, block_size)
    return -(-group.policy.full_tokens // block_size) + 1


def impossible(pool: Pool, groups: Sequence[Group]) -> bool:
    """The pool holds every session at its peak, for ever."""
    most = [most_blocks(group, pool.block_size) for group in groups]
    if any(each is None for each in most):
        return False
    return sum((each or 0) * group.sessions for each, group in zip(most, groups, strict=True)) <= pool.usable


def crossing(pool: Pool, groups: Sequence[Group], *, at_peak: bool = True) -> float | None:
    """t*, seconds: when the sum of blocks first passes P - 1; 0.0 if it does so from the beginning, None if never."""

    def full(t: float) -> bool:
        held = sum(blocks_at(group, t, pool.block_size, at_peak=at_peak) for group in groups)
        return held > pool.usable

    if full(0.0):
        return 0.0
    ends = [_settled(group, pool) for group in groups]
    if any(group.policy.kind == RECYCLE for group in groups):
        return _first_passage(pool, groups, max(ends))
    low, high = 0.0, max(ends)
    if not full(high):
        return None
    while high - low > 0.5 * min(group.unit for group in groups):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if full(middle) else (middle, high)
    return next(float(t) for t in _events(groups, low, high) if full(t))


def crossing_of(pool: Pool, starts: Floats, unit: float, tokens: Ints) -> float | None:
    """t* of sessions whose frames differ: `tokens` holds what each has resident after each of its frames, shape
    (sessions, frames), never falling. None: not within these frames."""
    blocks = blocks_of(tokens, pool.block_size)
    passed = np.flatnonzero(blocks.sum(axis=0) > pool.usable)
    if not len(passed):
        return None
    # nobody is more than `ahead` frames ahead: before all had done this frame less `ahead`, the pool was not full
    ahead = int((starts.max() - starts.min()) / unit) + 1
    first, last = max(0, int(passed[0]) - ahead), min(tokens.shape[1], int(passed[0]) + ahead)
    times = starts[:, None] + (np.arange(first, last) + 1) * unit
    before = blocks[:, first - 1] if first else np.zeros(len(starts), dtype=np.int64)
    steps = np.diff(blocks[:, first:last], prepend=before[:, None], axis=1)
    order = np.argsort(times, axis=None, kind="stable")
    held = before.sum() + np.cumsum(steps.ravel()[order])
    return float(times.ravel()[order][np.argmax(held > pool.usable)])


def positions_end(group: Group, positions: int, tokens_in: int) -> float:
    """When the first request of a group no longer takes its next input: T + a > max_model_len (vllm-sessions.md 4c).
    That input kills a stock engine, with every session."""
    room = (positions - tokens_in - group.resident) // group.growth
    return float(np.min(group.starts + (room.clip(-1) + 2) * group.unit))


def most_sessions(pool: Pool, policy: KvPolicy, in_flight: int) -> int:
    """Sessions of a bounded policy that the pool holds for ever."""
    return pool.usable // peak_blocks(policy.on_blocks(pool.block_size), in_flight, pool.block_size)


def sessions_for(pool: Pool, duration: float, unit: float, growth: float) -> int:
    """Fresh sessions without a window whose pool is not full after `duration` seconds, started together."""
    frames = int(np.floor(duration / unit + SAME))
    return int(pool.usable // max(1.0, np.ceil(frames * growth / pool.block_size)))


def _recycled(group: Group, frames: Ints) -> Ints:
    """Tokens of contexts that are closed once they pass 2 W, their last W encoded again. The first time comes early, at
    spread ages, as it does for the worker's sessions."""
    window, growth = group.policy.window, group.growth
    spread = np.maximum(np.arange(group.sessions) * GOLDEN % 1.0, 0.05)
    limit = window + np.round(spread * window).astype(np.int64)
    first = np.maximum((limit - group.resident) // growth + 1, 1)
    period = window // growth + 1
    again = window + growth * ((frames - first - 1) % period + 1)
    return np.where(frames <= first, group.resident + growth * frames, again)


def _settled(group: Group, pool: Pool) -> float:
    """Seconds after which nothing new happens to a group: it fills the pool alone, or it repeats itself."""
    if group.policy.kind == RECYCLE:
        frames = 3 * (2 * group.policy.window // group.growth + 2)
    else:
        tokens = (pool.usable + 1) * pool.block_size
        if group.policy.bounded:
            most = peak_blocks(group.policy, group.in_flight, pool.block_size)
            tokens = min(tokens, (most + 1) * pool.block_size)
        frames = -(-tokens // group.growth) + 1
    return float(group.starts.max()) + frames * group.unit


def _first_passage(pool: Pool, groups: Sequence[Group], until: float) -> float | None:
    """The same where blocks also come back: every frame of every session, in order of time."""
    times, steps, held = [], [], 0
    for group in groups:
        frames = np.arange(int((until - float(group.starts.min())) / group.unit) + 1)
        blocks = np.stack([_blocks(group, np.full(group.sessions, n), pool.block_size) for n in frames], axis=1)
        times.append((group.starts[:, None] + frames[1:] * group.unit).ravel())
        steps.append(np.diff(blocks, axis=1).ravel())
        held += int(blocks[:, 0].sum())
    time, step = np.concatenate(times), np.concatenate(steps)
    order = np.lexsort((step, time))  # of one moment, what comes back comes first
    passed = held + np.cumsum(step[order]) > pool.usable
    return float(time[order][np.argmax(passed)]) if passed.any() else None


def _events(groups: Sequence[Group], low: float, high: float) -> Floats:
    """All times in (low, high] at which a frame is complete, ascending."""
    found = []
    for group in groups:
        first = group.frames(low) + 1
        last = group.frames(high)
        count = int((last - first).max(initial=-1)) + 1
        numbers = first[:, None] + np.arange(count)
        times = group.starts[:, None] + numbers * group.unit
        found.append(times[numbers <= last[:, None]])
    return np.unique(np.concatenate(found))
