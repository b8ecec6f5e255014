"""Which admission rule holds which KV cache, under which load? Every cell is one `metrobench ramp`, as a user types it.

    python benchmarks/admission_study.py --out reports/admission-study               # about 50 minutes, quiet machine
    python benchmarks/admission_study.py --out reports/admission-study --list        # the cells, and for how long
    python benchmarks/admission_study.py --out /tmp/study --sessions 12 --cells 'steady/*/aimd' 'capacity/*'

The grid is {none, static, aimd, aimd+kv} x {unbounded, window, window+sinks} x {steady, flash-crowd, churn} on an
embedded worker with a small pool, and one `metrobench capacity` for each bounded policy beside it. A first capacity
search (or --sessions) tells how many sessions this machine holds: the pool, the load and the fixed cap are made to fit.
aimd+kv is left out where nothing is bounded: no number of sessions fits for ever, and it is aimd.

Stopped, it goes on where it was when it is started again with the same --out; cells that proved nothing are measured
again. At the end it writes table.txt, study.json and the plots, from the records alone.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from admission_outcome import CAPACITY, PILOT, conclude, newest, read, sentence, useful

from metrobench.units import seconds

MODEL = Path(__file__).with_name("talkative.toml")
TOKENS_PER_SESSION = 320
"""Pool tokens for each session that the machine holds: a quarter more than a session with a window and sinks at its
most (8 blocks of 32), so that latency binds before the pool, and far fewer than an unbounded one has after 10 s."""
KV = {"unbounded": "unbounded", "window": "window:128", "window+sinks": "window:128+16"}
RULES = ("none", "static", "aimd", "aimd+kv")
MEASURED = ("window", "window+sinks")
"""Policies whose capacity is a number: without a bound it depends on how long a session lives."""
BEFORE = 29.0
"""Seconds of a cell that are not streamed: vLLM is loaded, and the page is written."""
PILOT_TIME, CAPACITY_TIME = 170.0, 170.0


@dataclass(frozen=True)
class Load:
    """One workload. Sessions and rates are shares of the sessions that the machine holds."""

    workload: str
    """A shipped one, or the text of a file."""
    rate: float
    """Arrivals a second where the profile's factor is 1."""
    offer: float
    hold: float
    """Seconds."""
    arriving: float
    """Seconds in which all come."""

    @property
    def length(self) -> float:
        """Seconds that are streamed, about."""
        return self.arriving + self.hold + 1.5


STEADY = """name = "steady"
title = "Twice as many callers as fit, at a constant rate."
[arrivals]
process = "poisson"
[holding]
distribution = "exponential"
"""
CROWD = """name = "flash-crowd"
title = "Ten calm seconds, then eight times as many callers for five."
[arrivals]
process = "poisson"
profile = [[0.0, 1.0], [10.0, 1.0], [10.5, 8.0], [15.0, 8.0], [15.5, 1.0]]
[holding]
distribution = "exponential"
"""
LOADS = {
    "steady": Load(STEADY, rate=1 / 7, offer=4.0, hold=15.0, arriving=28.0),
    "flash-crowd": Load(CROWD, rate=1 / 30, offer=1.9, hold=15.0, arriving=22.0),
    "churn": Load("churn", rate=1 / 4, offer=7.0, hold=6.0, arriving=28.0),
}


@dataclass(frozen=True)
class Cell:
    """One command of the study; `name` is also its folder."""

    name: str
    arguments: tuple[str, ...]
    length: float
    """Seconds it takes, about."""


@dataclass(frozen=True)
class Study:
    """Where, and with what in common."""

    out: Path
    seed: int

    def prepare(self) -> None:
        """Write the workloads that are not shipped, which the commands read."""
        self.out.mkdir(parents=True, exist_ok=True)
        for name, load in LOADS.items():
            if "\n" in load.workload:
                (self.out / f"{name}.toml").write_text(load.workload)

    def pilot(self) -> Cell:
        """How many sessions does this machine hold, about?"""
        return self._capacity(PILOT, "window+sinks", PILOT_TIME)

    def cells(self, sessions: int) -> list[Cell]:
        """The whole study for a machine that holds `sessions`."""
        pool = ("--pool-tokens", str(TOKENS_PER_SESSION * sessions))
        found = [
            self._capacity(f"{CAPACITY}/{kv}", kv, CAPACITY_TIME, *pool, "--guess", str(sessions)) for kv in MEASURED
        ]
        for load, kv, rule in itertools.product(LOADS, KV, RULES):
            if kv in MEASURED or rule != "aimd+kv":
                found.append(self._ramp(load, kv, rule, sessions, pool))
        return found

    def _capacity(self, name: str, kv: str, length: float, *more: str) -> Cell:
        limits = ("--effort", "quick", "--max-time", f"{length:g}s", *more)
        return Cell(name, ("capacity", *self._common(name, kv), *limits), length)

    def _ramp(self, load_name: str, kv: str, rule: str, sessions: int, pool: tuple[str, ...]) -> Cell:
        name, load = f"{load_name}/{kv}/{rule}", LOADS[load_name]
        workload = str(self.out / f"{load_name}.toml") if "\n" in load.workload else load.workload
        come = ("--offer", str(round(load.offer * sessions)), "--rate", f"{load.rate * sessions:.3f}/s")
        who = ("--workload", workload, *come, "--hold", f"{load.hold:g}s")
        asked = f"static:{sessions}" if rule == "static" else rule
        arguments = ("ramp", *self._common(name, kv), *who, "--admission", asked, *pool)
        return Cell(name, arguments, load.length + BEFORE)

    def _common(self, name: str, kv: str) -> tuple[str, ...]:
        seed = ("--seed", str(self.seed), "--quiet")
        return ("--model", str(MODEL), "--kv", KV[kv], "--out", str(self.out / name), *seed)

    def finished(self, cell: Cell) -> bool:
        """The very command has a record that is whole and proves something."""
        file = newest(self.out / cell.name)
        return file is not None and useful(record := read(file)) and record.command == ["metrobench", *cell.arguments]

    def run(self, cell: Cell) -> None:
        """Measure a cell; one sentence about it. Exits where the command was interrupted or the study is wrong."""
        done = subprocess.run([sys.executable, "-m", "metrobench", *cell.arguments], stdout=subprocess.DEVNULL)
        if done.returncode in (1, 2) or done.returncode >= 128 or done.returncode < 0:
            sys.exit(f"{cell.name}: metrobench ended with exit code {done.returncode}; started again, it goes on here")
        file = newest(self.out / cell.name)
        words = sentence(read(file)) if file else f"no record (exit code {done.returncode})"
        print(f"{cell.name}: {words}", flush=True)


def main() -> None:
    """Measure what is missing, then tell from all records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where the records are kept")
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="PATTERN", help="as in 'steady/*/aimd'; all")
    parser.add_argument("--sessions", type=int, metavar="N", help="that this machine holds; measured where not given")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--list", action="store_true", help="only say what would run")
    asked = parser.parse_args()
    if asked.sessions is not None and asked.sessions < 2:
        parser.error("--sessions must be at least 2")
    study = Study(asked.out, asked.seed)
    everything = study.cells(asked.sessions or 100)
    if not [cell for cell in everything if _chosen(cell, asked.cells)]:
        parser.error(f"--cells {' '.join(asked.cells)}: no such cell, for example {everything[-1].name}")
    if asked.list:
        _list(study, [cell for cell in everything if _chosen(cell, asked.cells)], asked.sessions is None)
        return
    study.prepare()
    sessions = asked.sessions or _held(study)
    planned = study.cells(sessions)
    for cell in planned:
        if not _chosen(cell, asked.cells):
            continue
        if study.finished(cell):
            print(f"{cell.name}: measured before", flush=True)
        else:
            study.run(cell)
    print(conclude(study.out, [cell.name for cell in planned], sessions))


def _chosen(cell: Cell, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(cell.name, pattern) for pattern in patterns)


def _list(study: Study, cells: list[Cell], pilot: bool) -> None:
    if pilot:
        cells = [study.pilot(), *cells]
    for cell in cells:
        print(f"{seconds(cell.length):>12}  {cell.name}")
    print(f"{seconds(sum(cell.length for cell in cells)):>12}  {len(cells)} cells")


def _held(study: Study) -> int:
    """Sessions that this machine holds, by a search. Exits where it found none."""
    cell = study.pilot()
    if not study.finished(cell):
        study.run(cell)
    file = newest(study.out / cell.name)
    record = read(file) if file else None
    if record is None or not useful(record) or record.result is None:
        sys.exit("how many sessions this machine holds is not known: start again on a quiet machine, or say --sessions")
    return max(2, int(record.result["mscs"]["lo"]))


if __name__ == "__main__":
    main()
