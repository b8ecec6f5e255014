"""How long does the analysis of a large run take? 1,000,000 recorded frames: read, judged, and all plot data made.

`python benchmarks/analysis.py`: seconds and peak memory of each step, against 2 s and 500 MB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from metrobench.measure.facts import FRAME_DTYPE, LAG_EDGES, TELEMETRY_FIELDS, RunFacts, SessionFacts
from metrobench.measure.plan import Plan

SESSIONS, FRAMES, CUT = 500, 1995, 5
PLAN = Plan(sessions=SESSIONS, budget=1.0, unit=1.0, q=0.01, cut_frames=CUT, frames=FRAMES - 3)
SECONDS, MEGABYTES = 2.0, 500.0


def make(folder: Path) -> None:
    """A run of 33 minutes with a slow tail, stalls of the client and a few late frames."""
    from metrobench.records import write_facts

    rng = np.random.default_rng(1)
    width = CUT + FRAMES
    phases = np.mod(0.618034 * np.arange(SESSIONS), 1.0)
    rows = np.zeros((SESSIONS, width), dtype=FRAME_DTYPE)
    rows["session"], rows["frame"] = np.arange(SESSIONS)[:, None], np.arange(width)
    rows["t_ready"] = phases[:, None] + np.arange(1.0, width + 1.0)
    rows["t_sent"] = rows["t_ready"] + rng.exponential(2e-4, rows.shape)
    rows["t_done"] = rows["t_ready"] + rng.lognormal(np.log(0.2), 0.6, rows.shape)
    rows["t_first"] = rows["t_done"] - 0.05
    rows["tokens"] = 4
    t_stop = width - 0.5
    rows["t_done"][rows["t_done"] > t_stop] = np.nan
    rows["t_first"][np.isnan(rows["t_done"])] = np.nan
    stalls = np.sort(rng.uniform(0.0, t_stop, 5000))
    counts = np.zeros(len(LAG_EDGES) - 1, dtype=np.int64)
    counts[:40] = 50 * SESSIONS * width // 40
    facts = RunFacts(
        frames=rows[rows["t_ready"] <= t_stop],
        sessions=[SessionFacts(i, float(phase), filled_tokens=1024) for i, phase in enumerate(phases)],
        budget=1.0,
        unit=1.0,
        first_ready=1.0,
        stalls=np.column_stack([stalls, stalls + 0.002]),
        lag_counts=counts,
        t_stop=t_stop,
    )
    samples: list[dict[str, float | None]] = [
        {**dict.fromkeys(TELEMETRY_FIELDS, 0.5 * i), "t": 0.5 * i, "kv_usage": 0.3} for i in range(2 * width)
    ]
    write_facts(folder, facts, samples)
    print(f"{len(facts.frames):,} frames")


def analyse(folder: Path) -> None:
    """Read, judge, and make what the page plots, each timed."""
    from metrobench.measure.frames import build_table
    from metrobench.measure.series import lag_bars, latency_by_age, load_series, misses_by_second
    from metrobench.measure.sessions import worst_sessions
    from metrobench.measure.verdict import judge
    from metrobench.records import read_facts, read_telemetry

    begin, busy = time.perf_counter(), time.process_time()
    facts, telemetry = read_facts(folder), read_telemetry(folder)
    read = time.perf_counter()
    table = build_table(facts, PLAN)
    verdict = judge(facts, PLAN, table=table)
    judged = time.perf_counter()
    latency_by_age(table), misses_by_second(table), lag_bars(facts), load_series(telemetry)
    worst_sessions(facts, table)
    plotted = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, length in (("read", read - begin), ("judge", judged - read), ("plot data", plotted - judged)):
        print(f"{name:<10} {length:6.2f} s")
    total = plotted - begin
    print(f"{'CPU':<10} {time.process_time() - busy:6.2f} s of all threads, imports included")
    print(f"{'all':<10} {total:6.2f} s of {SECONDS:g} s, peak {peak:.0f} MB of {MEGABYTES:g} MB ({verdict.outcome})")
    sys.exit(0 if total < SECONDS and peak < MEGABYTES else 1)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        make(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as made:
            # in a process of its own: what makes the frames takes more memory than what reads them
            subprocess.run([sys.executable, __file__, "make", made], check=True)
            analyse(Path(made))
