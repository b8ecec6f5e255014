"""Which samples of a gauge a forecast may rest on: the part that grows, or why there is none. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metrobench.errors import NotValidError
from metrobench.measure.frames import Floats
from metrobench.measure.growth import theil_sen
from metrobench.predict.model import Pool
from metrobench.units import percent, seconds

MIN_SAMPLES = 8
MIN_LEVELS = 4
"""Fewest different values of a gauge that show how fast it grows."""
FINE = Pool(1_001, 1)
"""Stands for a pool of unknown size: a thousandth of it counts as a block, and steps are too small to be seen."""
DROP, NEARLY_FULL = 0.10, 0.85
"""Part of its value by which a gauge falls at once where sessions are preempted, and how full the pool then is."""
RESET = 0.5
"""Part of its value by which it falls where everything began anew. Less than that a window frees, all the time."""
STILL = 30.0
"""Shortest time in seconds after which a gauge that does not grow may be called steady."""
SLOWED = 0.15
"""Part of its earlier slope below which a gauge counts as steady."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """Samples of one engine, all arrays of shape (n,)."""

    t: Floats
    """Seconds, rising."""
    used: Floats
    """Fraction of the KV pool in use, 0 to 1."""
    sessions: Floats | None = None
    """Sessions that hold blocks; None: not known."""
    moved: Floats | None = None
    """Anything that grows while the engine works (tokens it has taken); None: not known. A gauge that stands still
    beside it is stale."""
    resident: Floats | None = None
    """Tokens of all sessions, each of which holds its place in the pool; None: not known, or a window frees some."""

    def until(self, count: int) -> Gauges:
        """The first `count` samples."""
        return self._cut(slice(None, count))

    def since(self, first: int) -> Gauges:
        """The samples from number `first` on."""
        return self._cut(slice(first, None))

    def _cut(self, part: slice) -> Gauges:
        sessions = None if self.sessions is None else self.sessions[part]
        moved = None if self.moved is None else self.moved[part]
        resident = None if self.resident is None else self.resident[part]
        return replace(self, t=self.t[part], used=self.used[part], sessions=sessions, moved=moved, resident=resident)


@dataclass(frozen=True, slots=True)
class Growing:
    """The samples to fit."""

    t: Floats
    """Seconds. Where sessions came meanwhile: session-seconds so far over the sessions of the end, up to the last t."""
    blocks: Floats
    """Blocks in use, as if all sessions of the end had been there from the beginning."""
    pool: Pool
    sessions: float | None
    """Alike, so that their steps can be seen; None: the blocks are of all together."""
    since: float
    why: str
    resident: Floats | None = None
    """Tokens of all sessions; None: not known."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The gauge does not grow: the pool is full, or will never be at this load."""

    full: bool
    full_since: float | None
    since: float
    samples: int
    why: str


def thinned(t: Floats, values: Floats, most: int = 200) -> tuple[Floats, Floats]:
    """At most so many samples, evenly chosen."""
    keep = np.unique(np.linspace(0, len(t) - 1, min(len(t), most)).round().astype(int))
    return t[keep], values[keep]


def growing_part(gauges: Gauges, pool: Pool | None) -> Growing | Standing:
    """The part since sessions last left or the gauge fell. Raises NotValidError where it does not bear a forecast."""
    _enough(len(gauges.t), f"{len(gauges.t)}")
    size = FINE if pool is None else pool
    full = gauges.used * size.usable > size.usable - 0.5
    if full[-1]:
        first = int(len(full) - np.argmin(full[::-1])) if not full.all() else 0
        since = float(gauges.t[first])
        return Standing(True, since, since, len(gauges.t) - first, "the pool is full")
    first, fell = _last_fall(gauges, size)
    part = gauges.since(first)
    if fell:
        # who was preempted has tokens and no place for them
        part = replace(part, resident=None)
    _enough(len(part.t), f"{len(part.t)} since {fell}" if fell else f"{len(part.t)}")
    if not part.used[-1] > 0.0:
        raise NotValidError("the KV gauge is at 0: no session holds anything", "start the load, then ask again")
    part = part.since(int(np.argmax(part.used > 0.0)))
    _enough(len(part.t), f"{len(part.t)} since the first session came")
    _fresh(part)
    blocks = part.used * size.usable
    steady = _steady(part, blocks)
    if steady is not None:
        return steady
    part, blocks, slowed = _after_slowing(part, blocks)
    if len(np.unique(np.round(blocks, 6))) < MIN_LEVELS:
        raise NotValidError(
            "the gauge has hardly risen: too little to tell how fast it grows", "wait until more of the pool is filled"
        )
    why = " ".join(word for word in (fell and f"{fell}; fitted since then.", slowed) if word)
    return _alike(part, blocks, size if pool is not None else None, why)


def _enough(count: int, what: str) -> None:
    if count < MIN_SAMPLES:
        raise NotValidError(
            f"too few samples to tell ({what}; {MIN_SAMPLES} are needed)", "let it run longer, or sample more often"
        )


def _last_fall(gauges: Gauges, pool: Pool) -> tuple[int, str]:
    """The first sample after the gauge last fell for a reason, and what happened."""
    drop = -np.diff(gauges.used)
    before = gauges.used[:-1]
    preempted = (drop > DROP * before) & (drop * pool.usable > 2.5) & (before > NEARLY_FULL)
    fell = preempted | ((drop > RESET * before) & (drop * pool.usable > 2.5))
    left = np.zeros_like(fell)
    if gauges.sessions is not None:
        left = (np.diff(gauges.sessions) < 0) & (drop > 0)
    found = np.flatnonzero(fell | left)
    if not len(found):
        return 0, ""
    last = int(found[-1])
    moment = seconds(float(gauges.t[last + 1]))
    words = f"the gauge fell from {percent(before[last])} to {percent(gauges.used[last + 1])} at {moment}"
    if left[last] and gauges.sessions is not None:
        gone = gauges.sessions[last] - gauges.sessions[last + 1]
        return last + 1, f"{words}, as {gone:.0f} sessions left"
    if preempted[last]:
        return last + 1, f"{words}{_nobody(gauges)}: sessions were preempted, for want of blocks"
    return last + 1, f"{words}{_nobody(gauges)}: the server was emptied or started again"


def _nobody(gauges: Gauges) -> str:
    return "" if gauges.sessions is None else " while nobody left"


def _fresh(part: Gauges) -> None:
    """Raises NotValidError where nothing moved behind the last samples."""
    if part.moved is None:
        return
    moved = np.flatnonzero(np.diff(part.moved) != 0.0)
    last = int(moved[-1]) + 1 if len(moved) else 0
    idle = float(part.t[-1] - part.t[last])
    if len(part.t) - last > 3 and not np.diff(part.used[last:]).any():
        raise NotValidError(
            f"the last samples are stale: nothing moved in the engine for {seconds(idle)}",
            "it is idle, or it hangs; its gauges only change when it works",
        )


def _steady(part: Gauges, blocks: Floats) -> Standing | None:
    """The last third does not grow, and is long enough to say so."""
    length = float(part.t[-1] - part.t[0])
    cut = int(np.searchsorted(part.t, part.t[0] + length * 2.0 / 3.0))
    late, early = slice(cut, None), slice(None, cut)
    if len(blocks[late]) < 4 or len(blocks[early]) < 4:
        return None
    level = float(np.median(blocks[late]))
    # windows give and take a few blocks all the time, up and down; a stair only goes up
    flicker = max(1.0, 0.02 * level, float((np.maximum.accumulate(blocks[late]) - blocks[late]).max()))
    if float(np.median(blocks[-max(3, len(blocks[late]) // 4) :])) > level + flicker:
        return None
    reached = int(np.argmax(blocks >= level - flicker))
    flat, grew = float(part.t[-1] - part.t[reached]), float(part.t[reached] - part.t[0])
    speed = (level - blocks[0]) / grew if grew > 0.0 else 0.0
    slope = theil_sen(*thinned(part.t[late], blocks[late]))
    lasted = float(part.t[-1] - part.t[cut])
    rise = float(blocks[-1] - blocks[cut]) if slope is None else slope.value * lasted
    # in step, the gauge stands on each stair until everybody needs a block again
    sessions = 1.0 if part.sessions is None else float(part.sessions[-1])
    stair = sessions / speed if speed > 0.0 else 0.0
    overall = (level - blocks[0]) / (part.t[cut] - part.t[0])
    if rise > max(1.0, SLOWED * overall * lasted) or flat < max(STILL, 2.0 * stair):
        return None
    why = f"the gauge has stood at {percent(float(np.median(part.used[late])), 0)} for {seconds(round(flat))}"
    return Standing(False, None, float(part.t[0]), len(part.t), why)


def _after_slowing(part: Gauges, blocks: Floats) -> tuple[Gauges, Floats, str]:
    """Only the second half, where it grows clearly more slowly than the first: some layers' windows are full."""
    half = len(blocks) // 2
    if half < 2 * MIN_SAMPLES or (part.sessions is not None and np.ptp(part.sessions) > 0):
        return part, blocks, ""
    early, late = (theil_sen(*thinned(part.t[side], blocks[side])) for side in (slice(half), slice(half, None)))
    if early is None or late is None or late.value > 0.6 * early.value or late.upper > early.lower:
        return part, blocks, ""
    moment = seconds(float(part.t[half]))
    return part.since(half), blocks[half:], f"Growth has slowed; fitted from {moment} on, and it may slow further."


def _alike(part: Gauges, blocks: Floats, pool: Pool | None, why: str) -> Growing:
    """What is fitted: alike sessions where all were there from the beginning, else all together."""
    since = float(part.t[0])
    if part.sessions is None or part.sessions[-1] < 1.0 or pool is None:
        return Growing(part.t, blocks, FINE if pool is None else pool, None, since, why)
    sessions = float(part.sessions[-1])
    changed = np.flatnonzero(part.sessions != sessions)
    steady = int(changed[-1]) + 1 if len(changed) else 0
    if len(part.t) - steady >= max(MIN_SAMPLES, 0.7 * len(part.t)):
        resident = None if part.resident is None else part.resident[steady:]
        return Growing(part.t[steady:], blocks[steady:], pool, sessions, float(part.t[steady]), why, resident)
    return _joined(part, blocks, pool, sessions, since, why)


def _joined(part: Gauges, blocks: Floats, pool: Pool, sessions: float, since: float, why: str) -> Growing:
    """Sessions came meanwhile: the time that counts is session-seconds, and each brought its first blocks along."""
    present = part.sessions if part.sessions is not None else np.ones_like(part.t)
    passed = np.concatenate([[0.0], np.cumsum(np.diff(part.t) * 0.5 * (present[1:] + present[:-1]))])
    design = np.stack([np.ones_like(passed), passed, present], axis=1)
    brought = max(0.0, float(np.linalg.lstsq(design, blocks, rcond=None)[0][2]))
    time = part.t[-1] - (passed[-1] - passed) / sessions
    words = f"{sessions - present[0]:.0f} sessions came meanwhile."
    return Growing(time, blocks + brought * (sessions - present), pool, None, since, f"{why} {words}".strip())
