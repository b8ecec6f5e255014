"""The search for MSCS: which number of sessions to run next, and what the runs so far say. No I/O, no clock."""

from __future__ import annotations

import itertools
import math
from enum import StrEnum

from msgspec import Struct

from metrobench.errors import UsageError
from metrobench.measure.intervals import Share, clopper_pearson
from metrobench.measure.plan import MAX_SESSIONS
from metrobench.measure.verdict import Outcome
from metrobench.measure.warnings import Warn

MIN_REPLICATES = 2
"""Fewest runs, all of one outcome, that make a bound."""


class Effort(Struct, frozen=True):
    """How hard to look."""

    name: str
    """As typed: quick, standard or full."""
    replicates: int
    """Runs at lo and at hi, all of one outcome."""
    doubtful: int
    """The same where one of them was a narrow pass or a narrow failure."""
    width: float
    """hi - lo, as a share of their middle, at which the search stops narrowing."""
    stride: float
    """Factor between the first two numbers of sessions: where the guess is right, they become lo and hi."""
    span: float | None
    """Shortest measured span T of a run, seconds; None: the shortest that may be judged."""


QUICK = Effort("quick", 2, 2, 0.25, 1.22, None)
STANDARD = Effort("standard", 2, 3, 0.12, 1.10, None)
FULL = Effort("full", 10, 10, 0.12, 1.10, 60.0)
EFFORTS = {effort.name: effort for effort in (QUICK, STANDARD, FULL)}

_VOID_PLACES = 3
"""Numbers of sessions, each half the one before, that may prove nothing before a search gives up its guess."""
_STRIDES = (1.12, 1.2, 1.35, 2.0)
"""Factors of the further steps away from a guess that was off."""
_ROOM = 1.2
"""Grid steps between two tried numbers of sessions that leave room for one between them."""
_CONVERGED = 3.0
"""Grid steps from lo to hi (15 %) within which the interval counts as converged."""


def grid_step(sessions: float) -> int:
    """max(1, 5 % of N), whole sessions."""
    return max(1, round(0.05 * sessions))


class Stop(StrEnum):
    """Why a search ended."""

    CONVERGED = "converged"
    LOWER_BOUND = "nothing-failed"
    NOTHING_PASSED = "nothing-passed"
    MIXED = "mixed-inside"
    VOID_TWICE = "void-twice"
    MAX_RUNS = "max-runs"
    MAX_TIME = "max-time"
    INTERRUPTED = "interrupted"

    @property
    def words(self) -> str:
        """The reason as people read it."""
        return _STOP_WORDS[self]


_STOP_WORDS = {
    Stop.CONVERGED: "both ends confirmed",
    Stop.LOWER_BOUND: "nothing failed up to the largest number of sessions allowed: a lower bound",
    Stop.NOTHING_PASSED: "one session already fails",
    Stop.MIXED: "runs between the ends disagree, so the interval stays wide",
    Stop.VOID_TWICE: "two runs in a row proved nothing",
    Stop.MAX_RUNS: "the largest number of runs was reached",
    Stop.MAX_TIME: "stopped at --max-time",
    Stop.INTERRUPTED: "interrupted",
}


class Run(Struct, frozen=True):
    """The next step: one run against a fresh server."""

    sessions: int
    """N."""
    why: str
    """What it is for, a few words."""


class Done(Struct, frozen=True):
    """No further step."""

    stop: Stop
    """Why."""


class Point(Struct, frozen=True):
    """The runs at one number of sessions."""

    sessions: int
    """N."""
    passed: int
    """Runs that passed."""
    failed: int
    """Runs that failed."""
    unresolved: int
    """Runs that stayed unresolved: they count as neither."""
    void: int
    """Runs that proved nothing."""
    pass_share: Share | None
    """Passed of passed + failed, with its exact interval; None: neither."""


class Mscs(Struct, frozen=True):
    """What a search found: MSCS lies in [lo, hi]."""

    lo: int
    """Largest N whose runs (2 or more) all passed, with no failed run at any smaller N; 0: none."""
    hi: int | None
    """Smallest N above lo whose runs (2 or more) all failed; None: none, so lo is a lower bound."""
    passed_once: int
    """The same as lo from single runs; not a bound."""
    failed_once: int | None
    """The same as hi from single runs; not a bound."""
    step: int
    """Grid step max(1, 5 % of N) at the middle of the interval, sessions."""
    points: tuple[Point, ...]
    """All N that were run, in order."""
    runs: int
    """Runs told, void ones included."""
    stop: Stop | None
    """Why the search ended; None: it has not."""
    warnings: tuple[Warn, ...]
    """Doubts about the interval."""

    @property
    def width(self) -> float | None:
        """hi - lo as a share of their middle; None where there is no hi."""
        return None if self.hi is None else 2.0 * (self.hi - self.lo) / (self.hi + self.lo)


class _Tally:
    """Outcomes at one number of sessions."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Outcome, 0)
        self.narrow = False

    @property
    def passed(self) -> int:
        return self.counts[Outcome.PASSED]

    @property
    def failed(self) -> int:
        return self.counts[Outcome.FAILED]

    @property
    def unresolved(self) -> int:
        return self.counts[Outcome.UNRESOLVED]

    def only_passed(self, least: int) -> bool:
        return self.passed >= least and not self.failed and not self.unresolved

    def only_failed(self, least: int) -> bool:
        return self.failed >= least and not self.passed and not self.unresolved

    def point(self, sessions: int) -> Point:
        known = self.passed + self.failed
        share = clopper_pearson(self.passed, known) if known else None
        return Point(sessions, self.passed, self.failed, self.unresolved, self.counts[Outcome.VOID], share)


class MscsSearch:
    """State of one search. Ask `next_step`, make the run, `tell` its outcome, until it answers Done."""

    def __init__(
        self,
        effort: Effort = STANDARD,
        *,
        guess: int | None = None,
        max_sessions: int = 4096,
        max_runs: int | None = None,
    ) -> None:
        """`guess`: sessions at the edge as a ramp saw it; None: double from 1. Raises UsageError."""
        max_runs = 20 + 10 * effort.replicates if max_runs is None else max_runs
        for name, value, high in (("max sessions", max_sessions, MAX_SESSIONS), ("max runs", max_runs, 10_000)):
            if not 1 <= value <= high:
                raise UsageError(f"{name} {value} is out of range", f"give 1 to {high}")
        self._effort = effort
        self._cap = max_sessions
        self.max_runs = max_runs
        self._guess = None if guess is None else min(max(1, guess), max_sessions)
        self._tallies: dict[int, _Tally] = {}
        self._repeat: int | None = None
        self._stop: Stop | None = None

    def next_step(self, left: int | None = None) -> Run | Done:
        """What to do next; `left`: runs there is time for, None: any number. With few left, both ends are confirmed as
        they stand rather than brought nearer. Asking again before the outcome is told gives the same answer.
        """
        if self._stop is None and self._runs >= self.max_runs:
            self._stop = Stop.MAX_RUNS
        if self._stop is not None:
            return Done(self._stop)
        if self._repeat is not None:
            return Run(self._repeat, "again, the last run was void")
        step = self._plan()
        if isinstance(step, Done):
            self._stop = step.stop
        elif left is not None:
            return self._in_haste(left) or step
        return step

    def tell(self, sessions: int, outcome: Outcome, *, narrow: bool = False, transient: bool = False) -> None:
        """The outcome of one run at `sessions`; `narrow` and `transient` as its verdict says.

        A void run is repeated once; one that is void for a transient reason, as often as that is told. Void again, it
        ends the search, or halves the guess where no run has proved anything yet: the client may be what cannot do it.
        """
        tally = self._tallies.setdefault(sessions, _Tally())
        tally.counts[outcome] += 1
        tally.narrow |= narrow
        if outcome is not Outcome.VOID:
            self._repeat = None
        elif transient:
            self._repeat = sessions
        elif self._repeat == sessions:
            self._repeat = None
            if self._known or sessions == 1 or len(self._tallies) == _VOID_PLACES:
                self._stop = self._stop or Stop.VOID_TWICE
            else:
                self._guess = sessions // 2
        else:
            self._repeat = sessions

    def halt(self, stop: Stop) -> None:
        """End the search from outside: MAX_TIME or INTERRUPTED."""
        self._stop = self._stop or stop

    def result(self) -> Mscs:
        """The interval and the table as they stand."""
        lo, hi = self._bounds(MIN_REPLICATES)
        lo_once, hi_once = self._bounds(1)
        middle = lo if hi is None else (lo + hi) / 2
        return Mscs(
            lo=lo,
            hi=hi,
            passed_once=lo_once,
            failed_once=hi_once,
            step=grid_step(middle),
            points=tuple(self._tallies[n].point(n) for n in sorted(self._tallies)),
            runs=self._runs,
            stop=self._stop,
            warnings=self._warnings(hi),
        )

    @property
    def _known(self) -> list[int]:
        """Numbers of sessions of which a run has proved something."""
        return [n for n, tally in self._tallies.items() if tally.passed or tally.failed or tally.unresolved]

    @property
    def _runs(self) -> int:
        return sum(sum(tally.counts.values()) for tally in self._tallies.values())

    def _bounds(self, replicates: int) -> tuple[int, int | None]:
        """lo and hi where `replicates` runs of one outcome are asked for."""
        tallies = self._tallies
        first_failure = min((n for n, tally in tallies.items() if tally.failed), default=math.inf)
        lo = max((n for n, t in tallies.items() if n < first_failure and t.only_passed(replicates)), default=0)
        hi = min((n for n, t in tallies.items() if n > lo and t.only_failed(replicates)), default=None)
        return lo, hi

    def _plan(self) -> Run | Done:
        """The next step from the runs so far: find both sides, narrow, confirm."""
        lo, hi = self._bounds(1)
        known = self._known
        if not known:
            return Run(self._first(), "first" if not self._tallies else "lower, nothing was proved")
        lowest, highest = min(known), max(known)
        if hi is None:
            if highest < self._cap:
                return Run(min(self._cap, max(highest + 1, math.ceil(highest * self._factor()))), "higher")
            return self._confirm(lo, None)
        if lo == 0 and lowest > 1:
            return Run(max(1, min(lowest - 1, math.floor(lowest / self._factor()))), "lower")
        between = self._between(lo, hi)
        return Run(between, "between") if between else self._confirm(lo, hi)

    def _first(self) -> int:
        """Half a stride below the guess, so that the next one up lies half a stride above it."""
        return 1 if self._guess is None else max(1, round(self._guess / math.sqrt(self._effort.stride)))

    def _factor(self) -> float:
        """Factor to the next number of sessions outside those tried; larger the longer the guess proves off."""
        if self._guess is None:
            return 2.0
        away = len(self._known) - 1
        return max(self._effort.stride, _STRIDES[min(away, len(_STRIDES)) - 1]) if away else self._effort.stride

    def _between(self, lo: int, hi: int) -> int | None:
        """The middle of the widest untried gap inside (lo, hi); None: narrow enough, or no room left."""
        if hi - lo <= max(1.0, self._effort.width * (hi + lo) / 2):
            return None
        tried = [lo, *sorted(n for n in self._tallies if lo < n < hi), hi]
        below, above = max(itertools.pairwise(tried), key=lambda pair: pair[1] - pair[0])
        middle = (below + above) // 2
        room = max(2.0, _ROOM * 0.05 * middle)
        return middle if above - below >= room else None

    def _confirm(self, lo: int, hi: int | None) -> Run | Done:
        """Replicates of the edge: the failing side first, since its runs end early."""
        if hi is not None and self._tallies[hi].failed < self._wanted(hi):
            return Run(hi, "replicate of hi")
        if lo and self._tallies[lo].passed < self._wanted(lo):
            return Run(lo, "replicate of lo")
        if hi is None:
            return Done(Stop.LOWER_BOUND if lo == max(self._known) else Stop.MIXED)
        if lo == 0:
            return Done(Stop.NOTHING_PASSED if hi == 1 else Stop.MIXED)
        return Done(Stop.CONVERGED if hi - lo <= max(1.0, self._widest() * (hi + lo) / 2) else Stop.MIXED)

    def _in_haste(self, left: int) -> Run | None:
        """A replicate of an end, lo first, where no more runs are left than both ends need and one to spare."""
        lo, hi = self._bounds(1)
        if not lo or hi is None:
            return None
        more_lo = max(0, MIN_REPLICATES - self._tallies[lo].passed)
        more_hi = max(0, MIN_REPLICATES - self._tallies[hi].failed)
        if left > more_lo + more_hi + 1 or not more_lo + more_hi:
            return None
        return Run(lo, "replicate of lo, time runs out") if more_lo else Run(hi, "replicate of hi, time runs out")

    def _wanted(self, sessions: int) -> int:
        """Runs that confirm an end of the interval."""
        return self._effort.doubtful if self._tallies[sessions].narrow else self._effort.replicates

    def _widest(self) -> float:
        """Largest width, as a share of the middle, that counts as converged."""
        return max(self._effort.width, _CONVERGED * 0.05)

    def _warnings(self, hi: int | None) -> tuple[Warn, ...]:
        found = {
            Warn.PASS_ABOVE_HI: hi is not None and any(t.passed for n, t in self._tallies.items() if n > hi),
            Warn.NOT_CONVERGED: self._stop
            not in (Stop.CONVERGED, Stop.LOWER_BOUND, Stop.NOTHING_PASSED, Stop.INTERRUPTED),
        }
        return tuple(warning for warning, holds in found.items() if holds)
