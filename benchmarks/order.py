"""Does the order of frames in front of the engine help urgent callers beside patient ones, and what does it cost these?

    python benchmarks/order.py --out /tmp/order --sessions 80       # about 10 minutes, quiet machine

Half of --sessions have 80 ms a frame, half 1 s, all at once on one worker (`metrobench ramp`, admission none), under
each rule of `--order`, --repeats times in turn. One line a run, then the median of each rule. A run whose client was
late itself is void and does not count.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from metrobench.records import read_record
from metrobench.units import percent, seconds

ORDERS = ("arrival", "deadline:4", "deadline:8", "deadline:16", "deadline:32", "deadline:16@20ms")
HOLD = 20.0
WORKLOAD = """name = "two-budgets"
title = "Half of the callers want their answers in 80 ms, half in 1 s."
[arrivals]
process = "even"
[holding]
distribution = "fixed"
[[budgets]]
share = 0.5
budget = 0.16
[[budgets]]
share = 0.5
budget = 2.0
"""
"""Budgets are factors on smoke's 500 ms."""


def measure(out: Path, order: str, sessions: int, seed: int) -> list[dict[str, Any]] | None:
    """Each class of one run, the tighter budget first; None: it proves nothing. Exits where nothing can be measured."""
    place = out / f"{order.replace(':', '-')}-{seed}"
    who = ("--offer", str(sessions), "--rate", f"{sessions / 5.0:g}/s", "--hold", f"{HOLD:g}s")
    how = ("--workload", str(out / "two-budgets.toml"), "--admission", "none", "--order", order, "--seed", str(seed))
    command = ("ramp", "--model", "smoke", *who, *how, "--quiet", "--out", str(place))
    code = subprocess.run([sys.executable, "-m", "metrobench", *command], stdout=subprocess.DEVNULL).returncode
    if code not in (0, 3):
        sys.exit(f"{order}: metrobench ended with exit code {code}")
    found = (read_record(max(place.glob("*"))).result or {})["ramp"]
    return None if found["client"]["lagging"] else found["budgets"]


def words(classes: list[dict[str, Any]]) -> str:
    """`80 ms: p99 210 ms, missed 3.1 % · 1 s: ...`."""
    return " · ".join(
        f"{seconds(each['budget'])}: p50 {_time(each['p50'])}, p99 {_time(each['p99'])},"
        f" missed {percent(each['missed'] / each['due'])}"
        for each in classes
    )


def _time(value: float | None) -> str:
    return "unknown" if value is None else seconds(value)


def main() -> None:
    """All rules in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where records are kept")
    parser.add_argument("--sessions", type=int, default=80)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--orders", nargs="+", default=list(ORDERS), metavar="RULE")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "two-budgets.toml").write_text(WORKLOAD)
    missed: dict[str, list[list[float]]] = {order: [] for order in asked.orders}
    for seed in range(1, asked.repeats + 1):
        for order in asked.orders:
            classes = measure(asked.out, order, asked.sessions, seed)
            print(f"{order}, seed {seed}: {'void: the client was late itself' if classes is None else words(classes)}")
            if classes is not None:
                missed[order].append([each["missed"] / each["due"] for each in classes])
    for order, runs in missed.items():
        middle = [percent(statistics.median(column)) for column in zip(*runs, strict=True)]
        print(f"{order}: missed {' and '.join(middle) or 'unknown'}, the median of {len(runs)}")


if __name__ == "__main__":
    main()
