"""`metrobench capacity`: the maximum sustainable concurrent sessions (MSCS) of a deployment."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.cli.bench import Bench
    from metrobench.measure.verdict import Verdict
    from metrobench.probe import Setting
    from metrobench.records import ProbeRecord
    from metrobench.search.mscs import Effort, Mscs, MscsSearch, Run
    from metrobench.servers import Server

TYPICAL_RUNS = 10
"""Runs of a search, about: for telling beforehand how long it takes."""
SLOW_EXCUSES = 2
"""Times in a row that a run is repeated because the machine was slow; after that slow is what the machine is."""


@click.command()
@options.model
@options.budget
@options.objective
@options.server
@click.option(
    "--duration", metavar="TIME", help="Measured time of each run. [default: the shortest that may be judged]"
)
@click.option(
    "--effort",
    type=click.Choice(["quick", "standard", "full"]),
    default="standard",
    show_default=True,
    help="How many replicates, how narrow.",
)
@click.option(
    "--max-sessions",
    type=click.IntRange(1, options.MAX_SESSIONS),
    default=1024,
    show_default=True,
    help="Never more sessions than this.",
)
@click.option("--guess", type=click.IntRange(1, options.MAX_SESSIONS), help="Start the search near this many sessions.")
@options.resume
@options.seed
@options.output
@options.vllm_args
def capacity(as_json: bool, kv: str | None, **asked: Any) -> None:
    """How many sessions a deployment sustains (MSCS), fresh server per run.

    Several policies, as in --kv unbounded,window:1024,window:1024+16, are measured one after another and compared.
    """
    from metrobench.cli.bench import print_json, several_policies
    from metrobench.cli.output import say
    from metrobench.errors import UsageError
    from metrobench.report import comparison

    policies = several_policies(kv)
    if asked["resume"] is not None and len(policies) > 1:
        raise UsageError("--resume goes on with one policy at a time", "give the --kv of that folder alone")
    benches: list[Bench] = []
    code = 0
    for policy in policies:
        bench, found = _measure(policy, as_json=as_json, **asked)
        benches.append(bench)
        code = max(code, found)
        if bench.interrupts.signum:
            break
    records = [bench.record for bench in benches]
    if as_json:
        print_json(records if len(policies) > 1 else records[0])
    elif len(policies) > 1:
        say(comparison.table(records))
    sys.exit(benches[-1].exit_code(code))


def _measure(
    policy: str | None,
    *,
    duration: str | None,
    effort: str,
    max_sessions: int,
    guess: int | None,
    resume: Path | None,
    out: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> tuple[Bench, int]:
    """One search under one policy, printed; the exit code it would have by itself."""
    from metrobench.cli.bench import Bench, Request
    from metrobench.cli.output import say
    from metrobench.report import terminal
    from metrobench.search.mscs import EFFORTS
    from metrobench.units import parse_duration

    bench = Bench("capacity", Request(kv=policy, **asked), out, quiet or as_json)
    wanted = EFFORTS[effort]
    span = parse_duration(duration, name="--duration") if duration else wanted.span
    setting = bench.setting(span=span, stop_when_failed=True, extend_unresolved=True)
    bench.record.setting |= {"effort": effort, "max_sessions": max_sessions}
    if resume is not None:
        bench.resume(resume)
    plan = setting.plan(max_sessions)
    bench.consent(max_sessions, TYPICAL_RUNS * plan.seconds)
    with bench.recorded():
        if not as_json:
            say(terminal.heading(bench.record, plan.span, fills=bench.fills))
        with bench.server() as server:
            code = _Search(bench, setting, server, wanted, max_sessions, guess).run()
    if not as_json:
        say(terminal.capacity(bench.record))
        say(f"report   {bench.folder.path / 'index.html'}")
    return bench, code


class _Search:
    """One search, from the first guess to the interval."""

    def __init__(
        self, bench: Bench, setting: Setting, server: Server, effort: Effort, most: int, guess: int | None
    ) -> None:
        self._bench = bench
        self._setting = setting
        self._server = server
        self._effort = effort
        self._most = most
        self._guess = guess
        self._runs: list[tuple[ProbeRecord, Verdict]] = []
        self._slow_in_a_row = 0

    def run(self) -> int:
        """Search, note the result in the record, return the exit code."""
        from metrobench.search.mscs import Done, MscsSearch, Stop

        guess = self._first_guess()
        search = MscsSearch(self._effort, guess=guess, max_sessions=self._most)
        self._catch_up(search)
        while not isinstance(step := search.next_step(), Done):
            made = None if self._bench.interrupts.signum else self._probe(step)
            if made is None or made[0].outcome == "interrupted":
                search.halt(Stop.INTERRUPTED)
            else:
                search.tell(step.sessions, made[1].outcome, narrow=made[1].narrow, transient=made[1].transient)
        result = search.result()
        self._finish(result, guess)
        unknown = result.hi is None and result.stop is not Stop.LOWER_BOUND
        return 3 if result.stop is Stop.VOID_TWICE or unknown else 0

    def _catch_up(self, search: MscsSearch) -> None:
        """Tell the search what the runs of the part before found."""
        import msgspec

        from metrobench.measure.verdict import Verdict
        from metrobench.search.replay import Told, replay

        made = [record for record in self._bench.record.probes if record.outcome != "interrupted"]
        self._runs = [(record, msgspec.convert(record.verdict, Verdict)) for record in made]
        verdicts = [verdict for _, verdict in self._runs]
        replay(search, [Told(each.sessions, each.outcome, each.narrow, each.transient) for each in verdicts])
        for verdict in verdicts:
            self._slow_in_a_row = self._slow_in_a_row + 1 if verdict.transient else 0

    def _first_guess(self) -> int | None:
        """Where to start: as asked, or by a closed loop on a throwaway worker, or by short runs at an endpoint."""
        setting = self._bench.record.setting
        if self._guess or "first_guess" in setting:
            return self._guess or setting["first_guess"]
        from metrobench.guess import guess_sessions, ramp_sessions

        folder = self._bench.folder.subfolder("00-guess")
        guess = guess_sessions if self._server.ours else ramp_sessions
        watch = self._bench.watch("first guess")
        found = guess(self._setting, self._server, self._most, self._bench.request.seed, folder, watch)
        if self._bench.interrupts.signum is None:
            setting["first_guess"] = found
        return found

    def _probe(self, step: Run) -> tuple[ProbeRecord, Verdict]:
        """One run of the search, on disk and in the record."""
        from metrobench.probe import probe

        index = len(self._bench.record.probes) + 1
        name = f"{index:02d}-n{step.sessions}"
        seed = self._bench.request.seed + index
        folder = self._bench.folder.subfolder(name)
        length = self._setting.plan(step.sessions).seconds
        watch = self._bench.watch(f"run {index} · {step.sessions} sessions", length)
        setting = replace(self._setting, excuse_slow=self._slow_in_a_row < SLOW_EXCUSES)
        record, verdict = probe(setting, self._server, step.sessions, seed, index, folder, watch)
        self._slow_in_a_row = self._slow_in_a_row + 1 if verdict.transient else 0
        self._runs.append((record, verdict))
        self._bench.add(record, f"probes/{name}")
        because = f" ({record.reasons[0]})" if record.reasons else ""
        self._bench.live.line(f"run {index} · {step.sessions} sessions · {step.why} · {record.outcome}{because}")
        return record, verdict

    def _finish(self, result: Mscs, guess: int | None) -> None:
        """Note what was found, what limits it, and the arithmetic beside it."""
        from metrobench.report.search_result import search_result

        for warning in result.warnings:
            self._bench.warn(warning)
        self._bench.record.result = search_result(self._bench.record, self._runs, result, guess)
