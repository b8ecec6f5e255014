"""Does the gate find a real regression, and leave an unchanged deployment alone?

`python benchmarks/regression.py`: on a quiet machine, 14 searches of about two minutes. A baseline of three searches of
the CPU worker; then one search of the same worker, each engine step made 40 % longer, which has to end with exit code 1
and the rule that it broke; then ten of the unchanged worker, each against that baseline: never 1, and 0 in eight or
more. Where the gate cannot tell, one more search is given to it, as it asks. One line a comparison.

Stopped, it goes on where it was when it is started again with the same `--out`. What follows `--` goes to every
search: `-- --pool-tokens 4096`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SLOW = "40%"
PASSES = 0.8
"""Least share of the unchanged comparisons that has to pass."""
TRIES = 3
"""Searches in place of one that proved nothing."""
PASS, FAIL, CANNOT_TELL = 0, 1, 3


@dataclass(frozen=True)
class Bench:
    """How to measure and where."""

    out: Path
    model: str
    extra: tuple[str, ...]

    def search(self, name: str, seed: int, guess: int | None, *options: str) -> Path:
        """The record of one search, measured unless it is there already. Exits where none proves anything."""
        place = self.out / name
        for left in reversed(range(TRIES + 1)):
            found = sorted(place.glob("*/run.json"))
            if found and (record := _read(found[-1]))["status"] == "complete" and record["result"]["mscs"]["lo"]:
                return found[-1].parent
            if not left:
                break
            unfinished = found and record["status"] == "interrupted"
            go_on = ("--resume", str(found[-1].parent)) if unfinished else ()
            near = ("--guess", str(guess)) if guess else ()
            asked = ("--model", self.model, "--effort", "quick", "--seed", str(seed), *near, *options, *self.extra)
            code = subprocess.run(
                [sys.executable, "-m", "metrobench", "capacity", *asked, *go_on, "--quiet", "--out", str(place)],
                stdout=subprocess.DEVNULL,
            ).returncode
            if code not in (0, CANNOT_TELL):
                sys.exit(code)
        sys.exit(f"{name}: {TRIES} searches proved nothing: is the machine quiet?")

    def gate(self, records: list[Path], baseline: list[Path]) -> dict[str, Any]:
        """What the gate says: `exit_code`, `answer`, `findings`."""
        file = self.out / "baseline.json"
        base = [sys.executable, "-m", "metrobench", "gate"]
        update = [*base, *map(str, baseline), "--baseline", str(file), "--update"]
        subprocess.run(update, check=True, stdout=subprocess.DEVNULL)
        judged = [*base, *map(str, records), "--baseline", str(file), "--format", "json"]
        done = subprocess.run(judged, capture_output=True, text=True)
        if done.returncode not in (PASS, FAIL, CANNOT_TELL):
            sys.exit(done.stderr)
        told: dict[str, Any] = json.loads(done.stdout)
        return told


def main() -> None:
    mine, extra = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("reports/regression"), help="where records are kept")
    parser.add_argument("--model", default="smoke")
    parser.add_argument("--baseline", type=int, default=3, metavar="N", help="searches of the baseline")
    parser.add_argument("--comparisons", type=int, default=10, metavar="N", help="of the unchanged worker")
    parser.add_argument("--more", type=int, default=1, metavar="N", help="searches where the gate cannot tell")
    asked = parser.parse_args(mine)
    bench = Bench(asked.out, asked.model, tuple(extra))

    first = bench.search("base-1", 1, None)
    guess = _middle(first)
    seeds = range(1, asked.baseline + 1)
    baseline = [first, *(bench.search(f"base-{seed}", seed, guess) for seed in seeds[1:])]
    print(f"baseline: MSCS {', '.join(_interval(each) for each in baseline)}", flush=True)

    slow = _compare(bench, "slow", baseline, 1, guess, asked.more, "--slow", SLOW)
    codes = [
        _compare(bench, f"same-{number:02d}", baseline, 1 + number % asked.baseline, guess, asked.more)
        for number in range(asked.comparisons)
    ]
    passed = codes.count(PASS)
    print(f"slowed by {SLOW}: exit code {slow}; unchanged: 1 in {codes.count(FAIL)}, 0 in {passed} of {len(codes)}")
    sys.exit(slow != FAIL or FAIL in codes or passed < PASSES * len(codes))


def _compare(bench: Bench, name: str, baseline: list[Path], seed: int, guess: int, more: int, *options: str) -> int:
    """The exit code of the gate for one deployment; 1 as soon as it was 1 once."""
    records: list[Path] = []
    looks = []
    for number in range(1 + more):
        records.append(bench.search(f"{name}-{number + 1}", seed, guess, *options))
        told = bench.gate(records, baseline)
        looks.append(told["answer"])
        if told["exit_code"] != CANNOT_TELL:
            break
    broken = [
        f"{each['rule']['metric']} {each['rule']['text']}" for each in told["findings"] if each["answer"] == "fail"
    ]
    words = f" ({', '.join(broken)})" if broken else ""
    mscs = ", ".join(_interval(each) for each in records)
    print(f"{name}: exit code {told['exit_code']}: {', then '.join(looks)}{words}; MSCS {mscs}", flush=True)
    return int(told["exit_code"])


def _read(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_bytes())
    return record


def _middle(folder: Path) -> int:
    found = _read(folder / "run.json")["result"]["mscs"]
    return round((found["lo"] + (found["hi"] or found["lo"])) / 2)


def _interval(folder: Path) -> str:
    found = _read(folder / "run.json")["result"]["mscs"]
    return f"[{found['lo']}, {found['hi'] or '...'}]"


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    main()
