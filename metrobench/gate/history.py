"""Metrics of many records over time: which belong to one series, and where a series changed its level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from metrobench.gate.changes import QUANTILE_SD, SEARCH_SD
from metrobench.gate.comparability import ABSENT, NAMES
from metrobench.gate.knee import knee
from metrobench.gate.samples import Sample
from metrobench.gate.steps import Level, levels

MAY_CHANGE = ("engine", "schema", "seed", "vllm-args")
"""Conditions that may change within a series: what a history is there to show."""
MISS_SD, DRIFT_SD = 0.002, 0.5 / 60_000.0
"""Scatter expected at least: of a miss rate, and of a drift (0.5 ms/min)."""
UNITS = {
    "mscs": "sessions",
    "p50": "seconds",
    "p99": "seconds",
    "miss_rate": "share",
    "drift": "seconds per second",
}
"""Metrics with the unit of their values."""


class Point(Struct, frozen=True):
    """One record of a series."""

    name: str
    created: str
    value: float


class Change(Struct, frozen=True):
    """One level of a series, and what set it off from the one before."""

    since: Point
    """Its first record."""
    count: int
    level: float
    """In the unit of the metric."""
    before: float | None
    """Level before; None: this is the first."""
    differs: tuple[str, ...]
    """Conditions that are not those of the record before it: `engine: a → b`."""

    @property
    def ratio(self) -> float | None:
        """Change as a share of the level before; None: there is none, or it is 0."""
        return None if not self.before else self.level / self.before - 1.0


class Series(Struct, frozen=True):
    """One metric of alike records, in the order of time."""

    metric: str
    scope: str
    unit: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    """Levels; the first one is no change."""
    other: str
    """What tells it from another series of the same name; empty: there is none."""


def history(samples: Sequence[Sample]) -> list[Series]:
    """All series, the longest first. Records that did not end are left out."""
    whole = sorted((each for each in samples if not each.partial), key=lambda each: (each.created, each.name))
    groups: dict[tuple[str, str, tuple[str, ...]], list[Sample]] = {}
    for sample in whole:
        key = tuple(sample.conditions.get(name, ABSENT) for name in NAMES if name not in MAY_CHANGE)
        groups.setdefault((sample.kind, _scope(sample), key), []).append(sample)
    found = []
    for (kind, scope, key), members in groups.items():
        others = [other for k, s, other in groups if (k, s) == (kind, scope)]
        apart = _apart(key, others)
        for metric in UNITS:
            series = _series(metric, scope, apart, members)
            if series is not None:
                found.append(series)
    return sorted(found, key=lambda each: (-len(each.points), each.scope, each.metric))


def _series(metric: str, scope: str, apart: str, members: Sequence[Sample]) -> Series | None:
    valued = [(sample, value) for sample in members if (value := _VALUES[metric](sample)) is not None]
    if not valued:
        return None
    logs = metric in ("mscs", "p50", "p99")
    floor = {"mscs": SEARCH_SD, "miss_rate": MISS_SD, "drift": DRIFT_SD}.get(metric, QUANTILE_SD)
    found = levels([math.log(value) if logs else value for _, value in valued], floor)
    points = tuple(Point(sample.name, sample.created, value) for sample, value in valued)
    changes = tuple(
        Change(
            since=points[each.first],
            count=each.count,
            level=_level(each, logs),
            before=_level(found[place - 1], logs) if place else None,
            differs=_differs(valued[each.first - 1][0], valued[each.first][0]) if place else (),
        )
        for place, each in enumerate(found)
    )
    return Series(metric, scope, UNITS[metric], points, changes, apart)


def _level(level: Level, logs: bool) -> float:
    return math.exp(level.mean) if logs else level.mean


def _scope(sample: Sample) -> str:
    names = ("profile", "policy", "sessions")
    parts = [sample.conditions.get(name, "") for name in names if name in sample.conditions]
    return " · ".join([*parts[:2], *(f"{each} sessions" for each in parts[2:])])


def _apart(key: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    names = [name for name in NAMES if name not in MAY_CHANGE]
    return ", ".join(
        f"{name} {value}"
        for place, (name, value) in enumerate(zip(names, key, strict=True))
        if len({other[place] for other in others}) > 1
    )


def _differs(before: Sample, now: Sample) -> tuple[str, ...]:
    pairs = ((name, before.conditions.get(name, ABSENT), now.conditions.get(name, ABSENT)) for name in MAY_CHANGE)
    return tuple(f"{name}: {old} → {new}" for name, old, new in pairs if old != new and name != "seed")


def _mscs(sample: Sample) -> float | None:
    if sample.kind != "capacity":
        return None
    found = knee(sample.trials)
    return None if found is None else math.exp(found.value)


def _mean(read: Callable[[object], float | None]) -> Callable[[Sample], float | None]:
    def value(sample: Sample) -> float | None:
        if sample.kind != "run":
            return None
        seen = [each for trial in sample.trials if (each := read(trial)) is not None]
        return sum(seen) / len(seen) if seen else None

    return value


def _of(name: str, inside: str = "") -> Callable[[object], float | None]:
    def read(trial: object) -> float | None:
        found = getattr(trial, name)
        return None if found is None else float(getattr(found, inside) if inside else found)

    return read


_VALUES: dict[str, Callable[[Sample], float | None]] = {
    "mscs": _mscs,
    "p50": _mean(_of("p50")),
    "p99": _mean(_of("p99")),
    "miss_rate": _mean(_of("missed", "value")),
    "drift": _mean(_of("slope", "value")),
}
