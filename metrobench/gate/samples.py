"""What a gate knows of one record: its conditions, its runs, and nothing else. A baseline file is a list of these."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from metrobench.measure.growth import Slope
from metrobench.measure.intervals import Share

Quantile = Annotated[float, Meta(gt=0.0)] | None


class Forecast(Struct, frozen=True):
    """When the server would collapse at this load, seconds from t0 of the run."""

    time: float | None
    """None: never."""
    lower: float | None = None
    upper: float | None = None
    """Ends of its 95 % interval."""


class Trial(Struct, frozen=True, kw_only=True):
    """One measured run."""

    sessions: Annotated[int, Meta(ge=1, le=10**9)]
    """N."""
    outcome: str
    """passed, failed, unresolved or void."""
    kv: str
    """KV policy, or the endpoint's."""
    missed: Share | None = None
    """Miss rate, a census, with its within-run interval; None: no frame fell due."""
    p50: Quantile = None
    """Seconds."""
    p99: Quantile = None
    """Seconds."""
    no_answer: bool = False
    """The 99th percentile falls among frames with no answer."""
    slope: Slope | None = None
    """Drift, seconds per second; None: too short for one."""
    collapse: str = "none"
    """Kind of what ended serving (metrobench.measure.collapse)."""
    collapsed: bool = False
    """Serving stopped for somebody."""
    forecast: Forecast | None = None
    """None: there is none of this run."""
    work: Quantile = None
    """CPU seconds of one fixed piece of work on the machine that measured, during the run; None: not known."""


class Answered(Struct, frozen=True, kw_only=True):
    """How an arm of a quality probe answers in old sessions."""

    arm: str
    """Its KV policy and condition, in words."""
    right: Share
    """Share of right answers."""
    doubt: str = ""
    """Not empty: the probe is inconclusive; which conditions do not hold."""


class Pair(Struct, frozen=True):
    """Two records that were measured alternately."""

    name: str
    """The same for all records of one command."""
    place: int
    """Which pair, from 1."""
    side: str
    """a or b."""


class Sample(Struct, frozen=True, kw_only=True):
    """One record."""

    name: str
    """Its folder's."""
    kind: str
    """capacity, run, collapse, check or quality."""
    created: str
    """UTC, ISO 8601."""
    conditions: dict[str, str]
    """What decides whether it may be compared (comparability.NAMES), in words."""
    trials: tuple[Trial, ...]
    """Runs that count: void and interrupted ones are left out."""
    lo: int | None = None
    """Of a capacity record: largest N confirmed to hold; 0: none."""
    hi: int | None = None
    """Smallest N confirmed not to hold; None: none."""
    answered: tuple[Answered, ...] = ()
    """Of a quality record: its arms, controls left out."""
    pair: Pair | None = None
    remark: str = ""
    """Not empty: what a reader of the gate's answer must know of it."""
    partial: str = ""
    """Not empty: the command did not end; why, a few words."""


class Baseline(Struct, frozen=True, kw_only=True):
    """A baseline file."""

    baseline: int
    """Version of this layout (BASELINE)."""
    written: str
    """UTC, ISO 8601."""
    samples: tuple[Sample, ...]


BASELINE = 1
"""Version of the baseline file; raised when an older reader would misread a newer one."""
