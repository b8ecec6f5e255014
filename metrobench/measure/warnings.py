"""Every warning that a measured number can carry, with what to do about it."""

from __future__ import annotations

from enum import StrEnum


class Warn(StrEnum):
    """A doubt about a number that does not change the verdict. The value is the name in records."""

    SHORT_RUN = "short-run"
    FRESH_SESSIONS = "fresh-sessions"
    CUT_TOO_SHORT = "cut-too-short"
    HOLLOW = "hollow-answers"
    AMBIGUOUS = "ambiguous-frames"
    NO_LAG = "no-lag-recorded"
    ROWS_IGNORED = "rows-ignored"
    SILENT_DROPS = "silent-drops"
    CORES_SHARED = "cores-shared"
    OTHERS_BUSY = "others-busy"
    MACHINE_SLOW = "machine-slow"
    MACHINE_UNEVEN = "machine-uneven"
    PREFIX_HITS = "prefix-hits"
    STEAL_UNKNOWN = "steal-unknown"
    PASS_ABOVE_HI = "pass-above-hi"
    NOT_CONVERGED = "not-converged"
    STAND_IN_NOT_ENGINE = "stand-in-not-engine"
    ONLY_LISTENS = "only-listens"
    SLOWED = "slowed-on-purpose"

    @property
    def advice(self) -> str:
        """What it means and the next step, one or two sentences."""
        return _ADVICE[self]


_ADVICE = {
    Warn.SHORT_RUN: "The measured span is shorter than max(15 B, 15 s, B/(q N)): overload may not have shown yet."
    " Run longer (--duration).",
    Warn.FRESH_SESSIONS: "Sessions did not start full: fresh sessions hold less KV and flatter the result."
    " Fill them, or run until they are full.",
    Warn.CUT_TOO_SHORT: "Latency was still settling after the cut (MSER-5): the numbers include the start."
    " Run longer (--duration).",
    Warn.HOLLOW: "Some answers came on time and were empty where content was due: the server answers with nothing."
    " Look at the answers before trusting the capacity.",
    Warn.AMBIGUOUS: "Some frames were late by no more than the client's own lateness: neither met nor missed."
    " Give the load process a core of its own.",
    Warn.NO_LAG: "No send lag was recorded, so the client could not be checked.",
    Warn.ROWS_IGNORED: "Some recorded rows did not belong to the plan and were left out.",
    Warn.SILENT_DROPS: "The server skipped frames without saying so: counted as missed.",
    Warn.CORES_SHARED: "Client and server shared a CPU core: the capacity is that of both together."
    " Use a machine with more cores.",
    Warn.MACHINE_SLOW: "A core of this machine kept slowing down (other guests of the hardware?) and runs failed on it:"
    " the capacity is that of a slow machine. Measure again at a calmer time.",
    Warn.MACHINE_UNEVEN: "One fixed piece of work took over a quarter longer in some runs than in others: this"
    " machine's speed changes, and the capacity with it. Measure at a calmer time; compare settings with --interleave.",
    Warn.OTHERS_BUSY: "Other programs used this machine's CPU during a run: the capacity may be too small."
    " Measure on an idle machine.",
    Warn.PREFIX_HITS: "The engine found tokens in its prefix cache: sessions shared work that real ones would not."
    " Turn prefix caching off.",
    Warn.STEAL_UNKNOWN: "CPU steal is not visible on this machine: another guest may have slowed the run.",
    Warn.PASS_ABOVE_HI: "A run passed with more sessions than hi: the edge is noisy. Use --effort full.",
    Warn.NOT_CONVERGED: "The search stopped before its interval was as narrow as asked."
    " Run it again on an idle machine, with more time, or with --effort full.",
    Warn.STAND_IN_NOT_ENGINE: "A stand-in should be limited by its engine and was not: the number says little about"
    " the engine.",
    Warn.SLOWED: "Every step of the engine was made longer on purpose (--slow): a known slowdown for tests, no"
    " measurement of this deployment.",
    Warn.ONLY_LISTENS: "The stand-in hears speech nearly all the time (no pauses, or noise in them): it listens where"
    " it would answer, and its load is lighter than that of users who pause.",
}
