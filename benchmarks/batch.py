"""How long does the re-analysis of a stored batch take? 20 trials of 64 sessions and 2 min, half of which stall.

`python benchmarks/batch.py`: seconds of `metrobench report` on it, a process of its own, against 2 s.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from metrobench.measure.plan import plan_run
from metrobench.records import RunFolder
from metrobench.report.collapse_table import conclude
from tests.report.made import add_run, blank
from tests.virtual_servers import facts, ready_times

TRIALS, SESSIONS, SPAN = 20, 64, 120.0
SECONDS, REPEATS = 2.0, 5


def make(folder: Path) -> None:
    """Every other trial falls silent for good, one second later each."""
    plan = plan_run(sessions=SESSIONS, budget=1.0, unit=1.0, q=0.01, span=SPAN)
    record = blank("collapse")
    record.setting |= {"kv": "unbounded", "sessions": SESSIONS, "trials": TRIALS, "span": SPAN}
    rng = np.random.default_rng(1)
    for trial in range(TRIALS):
        ready = ready_times(plan, u=trial / TRIALS, extra=8)
        done = ready + rng.lognormal(np.log(0.1), 0.5, ready.shape)
        onset = 60.0 + trial if trial % 2 else np.inf
        done[ready > onset] = np.inf
        found = facts(plan, ready, done, t_stop=float(ready[:, -1].max()))
        probe, _ = add_run(folder, record, plan, found, f"probes/{trial + 1:03d}-unbounded")
        probe.kv = "unbounded"
    conclude(record, folder, {})
    RunFolder(folder).write(record)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        times = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-m", "metrobench", "report", name], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - begin)
    middle = float(np.median(times))
    print(f"{TRIALS} trials of {SESSIONS} sessions: {middle:.2f} s (median of {REPEATS}), at most {SECONDS:g} s")
    sys.exit(middle > SECONDS)


if __name__ == "__main__":
    main()
