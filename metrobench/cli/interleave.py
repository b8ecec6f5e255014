"""`--interleave A B`: two policies or two addresses measured alternately, so that what changes, changes for both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from metrobench.cli import outlook
from metrobench.cli.bench import Bench
from metrobench.cli.capacity import Planned, Search, plan_search
from metrobench.cli.output import say, say_json
from metrobench.cli.request import Request
from metrobench.cli.run import measure
from metrobench.errors import UsageError
from metrobench.gate.judge import whole_pairs
from metrobench.gate.samples import Pair
from metrobench.policy import parse_policy
from metrobench.probe import Setting
from metrobench.report import comparison, terminal
from metrobench.report.gate import ratio
from metrobench.report.layout import hang
from metrobench.report.observe import observe
from metrobench.report.stored import Stored
from metrobench.servers import EmbeddedServer, Server
from metrobench.units import parse_duration

SIDES = ("a", "b")


@dataclass
class _Side:
    """One side of one pair, before anything of it has begun."""

    bench: Bench
    setting: Setting
    most: int
    """Most sessions it may open."""
    ahead: outlook.Outlook
    steps: Callable[[Setting, Server], Iterator[int]]
    """Measures a run at a time; the last value is the exit code."""


Prepare = Callable[[int, int, Path, float | None], _Side]
"""From the side (0, 1), the place of the pair, the folder of all records, and the seconds left."""


def searches(
    sides: tuple[str, str],
    pairs: int,
    max_time: str | None,
    dry_run: bool,
    *,
    kv: str | None,
    out: Path,
    as_json: bool,
    seed: int,
    guess: int | None,
    resume: Path | None,
    **asked: Any,
) -> int:
    """`capacity --interleave`: searches that take turns, run by run; the exit code."""
    if resume is not None:
        raise UsageError("--resume goes on with one search, not with --interleave")
    chosen = _chosen(sides, kv, asked.pop("endpoint"))
    guesses = [guess, guess]

    def prepare(side: int, place: int, folder: Path, left: float | None) -> _Side:
        options = {**asked, **chosen[side], "seed": seed + place - 1, "guess": guesses[side], "resume": None}
        planned = plan_search(out=folder, as_json=as_json, **options)
        bench, most = planned.bench, planned.most
        ahead = outlook.search_outlook(bench, planned.setting, planned.effort, most, planned.guess, left)

        def steps(setting: Setting, server: Server) -> Iterator[int]:
            search = Search(_with(planned, setting), server, outlook.run_time(bench))
            for _ in search.steps():
                yield search.code
            guesses[side] = _edge(bench.record.result) or guesses[side]
            yield search.code

        return _Side(bench, planned.setting, most, ahead, steps)

    return _measure(prepare, pairs, max_time, dry_run, out, as_json)


def runs(
    sides: tuple[str, str],
    pairs: int,
    max_time: str | None,
    dry_run: bool,
    *,
    sessions: int,
    duration: str,
    kv: str | None,
    out: Path,
    as_json: bool,
    quiet: bool,
    seed: int,
    **asked: Any,
) -> int:
    """`run --interleave`: runs in turn; the exit code."""
    chosen = _chosen(sides, kv, asked.pop("endpoint"))
    span = parse_duration(duration, name="--duration")

    def prepare(side: int, place: int, folder: Path, left: float | None) -> _Side:
        where = {"kv": chosen[side]["policy"], "endpoint": chosen[side]["endpoint"]}
        request = Request(**asked, **where, seed=seed + place - 1)
        bench = Bench("run", request, folder, quiet or as_json)
        setting = bench.setting(span=span, stop_when_failed=False, extend_unresolved=False)
        outlook.tell_raised(bench, duration, span, setting.plan(sessions))

        def steps(setting: Setting, server: Server) -> Iterator[int]:
            found = measure(bench, setting, server, sessions)
            yield 3 if found.outcome in ("void", "interrupted") else 0

        return _Side(bench, setting, sessions, outlook.run_outlook(bench, setting, sessions, left), steps)

    return _measure(prepare, pairs, max_time, dry_run, out, as_json)


def _chosen(sides: tuple[str, str], kv: str | None, endpoint: str | None) -> list[dict[str, Any]]:
    """Policy and address of either side. Raises UsageError where the two are not of one kind, or the same."""
    addresses = ["://" in side for side in sides]
    if any(addresses) and not all(addresses):
        raise UsageError("--interleave takes two policies or two addresses, not one of each")
    if all(addresses):
        if endpoint is not None:
            raise UsageError("--interleave already names the addresses", "leave --endpoint out")
        return [{"policy": kv, "endpoint": side} for side in sides]
    if kv is not None:
        raise UsageError("--interleave already names the policies", "leave --kv out")
    if endpoint is not None:
        raise UsageError("a policy is the server's own choice: --interleave with --endpoint takes two addresses")
    for side in sides:
        parse_policy(side)
    return [{"policy": side, "endpoint": None} for side in sides]


def _measure(prepare: Prepare, pairs: int, max_time: str | None, dry_run: bool, out: Path, as_json: bool) -> int:
    """All pairs, then the ratio; the exit code."""
    allowed = parse_duration(max_time, name="--max-time") if max_time else None
    end = None if allowed is None else time.monotonic() + allowed
    name = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-interleave")
    done: list[Stored] = []
    code = 0
    for place in range(1, pairs + 1):
        left = None if end is None else (end - time.monotonic()) / (pairs - place + 1)
        both = [prepare(side, place, out / name, left) for side in (0, 1)]
        if dry_run:
            return _tell(both, pairs, as_json)
        for side, each in zip(SIDES, both, strict=True):
            each.bench.pair_with(both[0].bench if each is not both[0] else None, Pair(name, place, side))
            each.bench.limit_time(left)
            each.bench.record.setting["max_time"] = left
            outlook.check_machine(each.bench, each.ahead)
            outlook.check_fits(each.ahead)
            if place == 1:
                each.bench.consent(each.most, each.ahead.many_seconds * pairs)
        code = max(code, _pair(both, place, pairs, as_json))
        done += [Stored(each.bench.folder.path, each.bench.record) for each in both]
        if both[0].bench.interrupts.signum:
            break
    _show(done, out / name, as_json)
    return both[0].bench.exit_code(code)


def _tell(both: Sequence[_Side], pairs: int, as_json: bool) -> int:
    """What would happen, on stdout."""
    if as_json:
        say_json({"pairs": pairs, "sides": [outlook.data(each.ahead) for each in both]})
        return 0
    for side, each in zip(SIDES, both, strict=True):
        say(f"side {side.upper()}, {pairs} time{'' if pairs == 1 else 's'}:\n{outlook.text(each.ahead)}\n")
    return 0


def _pair(both: Sequence[_Side], place: int, pairs: int, as_json: bool) -> int:
    """Measure one pair; every other one begins with B. The exit code."""
    first, second = (each.bench for each in both)
    with first.recorded(), second.recorded():
        if not as_json:
            for side, each in zip(SIDES, both, strict=True):
                if place == 1:
                    say(f"{side.upper()}:")
                    say(terminal.heading(each.bench.record, each.setting.plan(each.most).span, fills=each.bench.fills))
            first.live.line(f"pair {place} of {pairs}")
        settings = [each.bench.with_audio(each.setting) for each in both]
        with _servers(first, second) as servers:
            turns = [each.steps(setting, server) for each, setting, server in zip(both, settings, servers, strict=True)]
            return _alternate(turns if place % 2 else turns[::-1])


@contextmanager
def _servers(first: Bench, second: Bench) -> Iterator[tuple[Server, Server]]:
    """Both servers. Embedded workers come from one process that has loaded vLLM, one at a time."""
    with first.server() as server:
        if isinstance(server, EmbeddedServer):
            yield server, server.under(second.policy)
            return
        with second.server() as other:
            yield server, other


def _alternate(turns: Sequence[Iterator[int]]) -> int:
    """A run of each in turn until all are over; the largest exit code."""
    codes = [0] * len(turns)
    going = list(enumerate(turns))
    while going:
        for number, turn in list(going):
            try:
                codes[number] = next(turn)
            except StopIteration:
                going.remove((number, turn))
    return max(codes)


def _show(done: Sequence[Stored], folder: Path, as_json: bool) -> None:
    """A table of all, the ratio, where they are and what judges them."""
    records = [each.record for each in done]
    if as_json:
        say_json(records)
        return
    say(comparison.numbered(records))
    samples = [observe(each) for each in done]
    sides = [[each for each in samples if each.pair and each.pair.side == side] for side in SIDES]
    say("")
    for line in ratio.lines(*whole_pairs(*sides)):
        say(line)
    for each in samples:
        if each.partial and each.pair:
            why = f"pair {each.pair.place} is left out, side {each.pair.side.upper()}: {each.partial}"
            say("\n".join(hang("note       ", why)))
    say(f"records    {folder}")
    say(f"next       metrobench gate {folder}  (judges B against A)")


def _with(planned: Planned, setting: Setting) -> Planned:
    return replace(planned, setting=setting)


def _edge(result: dict[str, Any] | None) -> int | None:
    """The middle of what a search found, where the next one may begin."""
    mscs = (result or {}).get("mscs") or {}
    return round((mscs["lo"] + mscs["hi"]) / 2) if mscs.get("hi") else mscs.get("lo") or None
