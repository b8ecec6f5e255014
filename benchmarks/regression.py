"""Does the gate find a real regression, and leave an unchanged deployment alone?

`python benchmarks/regression.py`, on a quiet machine: 16 runs of 40 s. A baseline of five runs of the CPU worker; then
one of the same worker, each engine step made 40 % longer, which has to end with exit code 1 and the rule that it broke;
then ten of the unchanged worker, each against that baseline: never 1, and 0 in eight or more. Where the gate cannot
tell, it is given further runs, as it asks, until eight have passed. One line a comparison.

The rule is about the median latency, which a core that is slow for some seconds does not move; all users talk all the
time, since the median of frames of two kinds, spoken and silent, lies in the gap between them. `--rule mscs` asks the
same of searches for the capacity, two minutes each, of which three are the baseline.

Stopped, it goes on where it was when it is started again with the same `--out`. What follows `--` goes to every
measurement: `-- --pool-tokens 4096`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metrobench.report.observe import COUNTED

SLOW = "40%"
SLOWDOWN = 1.4
"""The same as a factor."""
PASSES = 0.8
"""Least share of the unchanged comparisons that has to pass."""
TRIES = 3
"""Measurements in place of one that proved nothing."""
PASS, FAIL, CANNOT_TELL = 0, 1, 3


@dataclass(frozen=True)
class Rule:
    """What the gate is asked, and how much is measured for it."""

    text: str
    baseline: int
    """Records."""
    command: tuple[str, ...]


RULES = {
    "p50": Rule('p50 = { max_rise = "20%" }', 5, ("run", "--duration", "20s", "--talk", "continuous")),
    "mscs": Rule('mscs = { max_drop = "15%" }', 3, ("capacity", "--effort", "quick")),
}


@dataclass(frozen=True)
class Bench:
    """How to measure and where."""

    out: Path
    rule: Rule
    options: tuple[str, ...]

    def record(self, name: str, seed: int, *options: str) -> Path:
        """One record, measured unless it is there already. Exits where none proves anything."""
        place = self.out / name
        for left in reversed(range(TRIES + 1)):
            found = sorted(place.glob("*/run.json"))
            last = _read(found[-1]) if found else {}
            if last.get("status") == "complete" and any(each["outcome"] in COUNTED for each in last["probes"]):
                return found[-1].parent
            if not left:
                break
            unfinished = last.get("status") == "interrupted" and last["kind"] == "capacity"
            go_on = ("--resume", str(found[-1].parent)) if unfinished else ()
            asked = (*self.rule.command, "--seed", str(seed), *self.options, *options, *go_on)
            code = subprocess.run(
                [sys.executable, "-m", "metrobench", *asked, "--quiet", "--out", str(place)], stdout=subprocess.DEVNULL
            ).returncode
            if code not in (0, CANNOT_TELL):
                sys.exit(code)
        sys.exit(f"{name}: {TRIES} measurements proved nothing: is the machine quiet?")

    def gate(self, records: list[Path], baseline: list[Path]) -> dict[str, Any]:
        """What the gate says: `exit_code`, `answer`, `findings`."""
        file, policy = self.out / "baseline.json", self.out / "gate.toml"
        policy.write_text(f"{self.rule.text}\n")
        base = [sys.executable, "-m", "metrobench", "gate"]
        update = [*base, *map(str, baseline), "--baseline", str(file), "--update"]
        subprocess.run(update, check=True, stdout=subprocess.DEVNULL)
        judged = [*base, *map(str, records), "--baseline", str(file), "--policy", str(policy), "--format", "json"]
        done = subprocess.run(judged, capture_output=True, text=True)
        if done.returncode not in (PASS, FAIL, CANNOT_TELL):
            sys.exit(done.stderr)
        told: dict[str, Any] = json.loads(done.stdout)
        return told


class Comparison:
    """One deployment against the baseline, with more and more records."""

    def __init__(self, bench: Bench, name: str, baseline: list[Path], seed: int, *options: str) -> None:
        self._bench, self._name, self._baseline, self._seed, self._options = bench, name, baseline, seed, options
        self._records: list[Path] = []
        self._looks: list[str] = []
        self.code = CANNOT_TELL

    def look(self) -> int:
        """The gate's exit code after one more record."""
        name = f"{self._name}-{len(self._records) + 1}"
        self._records.append(self._bench.record(name, self._seed, *self._options))
        told = self._bench.gate(self._records, self._baseline)
        self._looks.append(told["answer"])
        self.code = int(told["exit_code"])
        broken = [
            f"{each['rule']['metric']} {each['rule']['text']}" for each in told["findings"] if each["answer"] == "fail"
        ]
        words = f" ({', '.join(broken)})" if broken else ""
        seen = ", ".join(_seen(each) for each in self._records)
        print(f"{self._name}: exit code {self.code}: {', then '.join(self._looks)}{words}; {seen}", flush=True)
        return self.code


def main() -> None:
    mine, extra = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("reports/regression"), help="where records are kept")
    parser.add_argument("--rule", choices=RULES, default="p50")
    parser.add_argument("--model", default="smoke")
    parser.add_argument("--sessions", type=int, default=16, metavar="N", help="of each run of --rule p50")
    parser.add_argument("--comparisons", type=int, default=10, metavar="N", help="of the unchanged worker")
    parser.add_argument("--more", type=int, default=2, metavar="N", help="further records where the gate cannot tell")
    asked = parser.parse_args(mine)
    began = time.monotonic()
    rule = RULES[asked.rule]
    fixed = () if asked.rule == "mscs" else ("--sessions", str(asked.sessions))
    bench = Bench(asked.out / asked.rule, rule, ("--model", asked.model, *fixed, *extra))
    bench.out.mkdir(parents=True, exist_ok=True)

    first = bench.record("base-1", 1)
    near = _near(first)
    seeds = range(1, rule.baseline + 1)
    baseline = [first, *(bench.record(f"base-{seed}", seed, *near(1.0)) for seed in seeds[1:])]
    print(f"baseline: {', '.join(_seen(each) for each in baseline)}", flush=True)

    slow = Comparison(bench, "slow", baseline, 1, "--slow", SLOW, *near(SLOWDOWN))
    same = [
        Comparison(bench, f"same-{number:02d}", baseline, 1 + number % rule.baseline, *near(1.0))
        for number in range(asked.comparisons)
    ]
    wanted = PASSES * len(same)
    _decide([slow], asked.more, lambda: False)
    _decide(same, asked.more, lambda: _count(same, PASS) >= wanted)
    failed, passed = _count(same, FAIL), _count(same, PASS)
    print(
        f"slowed by {SLOW}: exit code {slow.code}; unchanged: 1 in {failed}, 0 in {passed} of {len(same)};"
        f" {(time.monotonic() - began) / 60:.1f} min"
    )
    sys.exit(slow.code != FAIL or failed > 0 or passed < wanted)


def _decide(comparisons: list[Comparison], more: int, enough: Callable[[], bool]) -> None:
    """A first look at each, then up to `more` further ones at those that cannot be told, until that is enough."""
    for comparison in comparisons:
        comparison.look()
    for _ in range(more):
        for comparison in comparisons:
            if comparison.code == CANNOT_TELL and not enough():
                comparison.look()


def _count(comparisons: list[Comparison], code: int) -> int:
    return sum(each.code == code for each in comparisons)


def _near(record: Path) -> Callable[[float], tuple[str, ...]]:
    """Options that begin a search where this one ended, divided by a factor; none for a run."""
    found = _read(record / "run.json")["result"].get("mscs")
    if not found:
        return lambda _: ()
    lo = found["lo"] or found["passed_once"]
    middle = (lo + (found["hi"] or found["failed_once"] or lo)) / 2
    return lambda factor: ("--guess", str(max(1, round(middle / factor))))


def _seen(record: Path) -> str:
    """The figure that the rule is about."""
    told = _read(record / "run.json")
    if found := told["result"].get("mscs"):
        return f"MSCS [{found['lo']}, {found['hi'] or '...'}]"
    p50 = told["probes"][-1]["verdict"]["latency"]["p50"]
    return "no p50" if p50 is None else f"{p50 * 1000.0:.1f} ms"


def _read(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_bytes())
    return record


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    main()
