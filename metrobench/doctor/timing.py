"""The clock that every time is read from, and the timer that wakes the load process up."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from metrobench.doctor.check import Check, Status, first_of, not_visible
from metrobench.load.lags import HEARTBEAT
from metrobench.load.timer import DeadlineTimer
from metrobench.measure.frames import healthy_lag
from metrobench.units import seconds

TIMER_SECONDS = 2.0
SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
READINGS = 20_000
"""Readings in a row that time one reading and show the smallest step."""

COARSE = 1e-3
"""Seconds: a clock with larger steps cannot tell a send in time from a late one."""
ROUGH = 1e-5
SLOW_READING = 1e-6
"""Seconds of one reading: a clock in user space takes 0.05 us, one behind a device (hpet, acpi_pm) a few."""
FAST_SLEW = 500e-6
"""The kernel's own limit of slewing (adjtimex): an hour is out by less than 2 s, a frame by nothing."""
VISIBLE_SLEW = 0.1e-6
STEP = 0.010
"""Seconds by which the wall clock may move against the monotonic one: records carry it only as a date."""
FINE_LATENESS = 0.001
"""Seconds: a timer this good leaves the send lag to the client's own work."""


class ClockReading(Struct, frozen=True):
    """What was seen of the clock."""

    source: str | None
    """The kernel's name for the hardware; None: not visible."""
    step: float
    """Smallest difference between two readings, seconds."""
    cost: float
    """Seconds of one reading."""
    backwards: int
    """Readings smaller than the one before."""
    slew: float | None
    """Rate of CLOCK_MONOTONIC against the raw hardware, less 1; None: not visible."""
    wall_step: float
    """Seconds by which the wall clock moved against CLOCK_MONOTONIC meanwhile."""


def check_timing(core: int) -> list[Check]:
    """Clock and timer, read on `core` and judged."""
    os.sched_setaffinity(0, {core})
    step, cost, backwards = _read_often()
    before = _offsets()
    try:
        lateness = measure_timer(TIMER_SECONDS)
    except OSError as error:
        timer = not_visible("timer", error.strerror or "no timerfd")
        lateness = None
    after = _offsets()
    passed = after[0] - before[0]
    slew = None if before[1] is None or after[1] is None else (before[1] - after[1]) / passed
    clock = ClockReading(_source(), step, cost, backwards, slew, (after[2] - before[2]))
    return [judge_clock(clock), judge_timer(lateness, core) if lateness is not None else timer]


def judge_clock(seen: ClockReading) -> Check:
    """CLOCK_MONOTONIC for measuring, the wall clock for dates."""
    words = f"{seen.source or 'source not visible'}, steps of {_tiny(seen.step)}, {_tiny(seen.cost)} a reading"
    if abs(seen.slew or 0.0) >= VISIBLE_SLEW:
        words += f", corrected by {(seen.slew or 0.0) * 1e6:+.1f} ppm"
    if abs(seen.wall_step) > STEP:
        words += f", the wall clock moved by {seconds(seen.wall_step)}"
    rules = [
        (seen.backwards > 0, Status.FAIL, f"it went backwards {seen.backwards} times: no time measured here holds"),
        (seen.step > COARSE, Status.FAIL, "too coarse for chunks of 20 ms: choose another clock source"),
        (seen.step > ROUGH, Status.WARN, "coarse: latencies are good to no more than that"),
        (seen.cost > SLOW_READING, Status.WARN, "reading it is slow: clocksource=tsc at boot, where the CPU has one"),
        (
            abs(seen.slew or 0.0) > FAST_SLEW,
            Status.WARN,
            "time synchronisation is in full swing: wait for its end",
        ),
        (abs(seen.wall_step) > STEP, Status.WARN, "only dates in records suffer; latencies use the monotonic clock"),
    ]
    figures = {name: getattr(seen, name) for name in seen.__struct_fields__}
    return first_of("clock", rules, words, **figures)


def judge_timer(lateness: npt.NDArray[np.float64], core: int) -> Check:
    """`lateness`: seconds from each deadline to the wake-up."""
    if not len(lateness):
        return Check("timer", Status.FAIL, "it never fired", "another kernel, or another machine")
    p50, p99, most = (float(value) for value in np.quantile(lateness, (0.5, 0.99, 1.0)))
    words = f"wakes late by {_tiny(p50)} (p50), {_tiny(p99)} (p99), {_tiny(most)} at most, on core {core}"
    limit = healthy_lag(0.0)
    rules = [
        (p99 > limit, Status.FAIL, f"a run whose chunks leave later than {seconds(limit)} proves nothing"),
        (p99 > FINE_LATENESS, Status.WARN, "a busy or virtual core: give the client a core of its own"),
    ]
    return first_of("timer", rules, words, p50=p50, p99=p99, max=most, wakeups=len(lateness))


def measure_timer(length: float) -> npt.NDArray[np.float64]:
    """Lateness in seconds of every wake-up of the load process's timer, at its heartbeat, for `length` seconds.

    A deadline that has passed by the time of the wake-up before is left out: it was never waited for.
    Raises OSError where the system has no timerfd.
    """
    timer = DeadlineTimer()
    poller = select.poll()
    poller.register(timer.fd, select.POLLIN)
    late = []
    start = deadline = time.monotonic()
    while (now := time.monotonic()) < start + length:
        deadline = max(deadline, now - (now - start) % HEARTBEAT) + HEARTBEAT
        timer.arm(deadline)
        if poller.poll(1000.0 * length):
            late.append(time.monotonic() - deadline)
    timer.close()
    return np.array(late)


def _read_often() -> tuple[float, float, int]:
    """Smallest step, seconds of one reading, steps backwards."""
    read = time.monotonic_ns
    begin = read()
    values = np.array([read() for _ in range(READINGS)])
    took = (read() - begin) / READINGS
    steps = np.diff(values)
    forward = steps[steps > 0]
    return float(forward.min()) * 1e-9 if len(forward) else took * READINGS * 1e-9, took * 1e-9, int((steps < 0).sum())


def _offsets() -> tuple[float, float | None, float]:
    """CLOCK_MONOTONIC, and the raw and the wall clock against it, from the closest of a few pairs of readings."""
    raw = getattr(time, "CLOCK_MONOTONIC_RAW", None)
    against_raw = None if raw is None else _against(raw)
    return time.monotonic(), against_raw, _against(time.CLOCK_REALTIME)


def _against(clock: int) -> float:
    best, offset = None, 0.0
    for _ in range(50):
        begin = time.monotonic_ns()
        other = time.clock_gettime_ns(clock)
        width = time.monotonic_ns() - begin
        if best is None or width < best:
            best, offset = width, (other - begin - width / 2) * 1e-9
    return offset


def _source() -> str | None:
    try:
        return SOURCE.read_text().strip() or None
    except OSError:
        return None


def _tiny(value: float) -> str:
    """Like `seconds`, down to nanoseconds."""
    size = abs(value)
    if size < 1e-6:
        return f"{value * 1e9:.0f} ns"
    return f"{value * 1e6:.0f} us" if size < 1e-3 else seconds(value)
