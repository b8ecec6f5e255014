"""`metrobench capacity`: the maximum sustainable concurrent sessions (MSCS) of a deployment."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metrobench.cli.bench import Bench
    from metrobench.measure.plan import Plan
    from metrobench.measure.verdict import Verdict
    from metrobench.probe import Setting
    from metrobench.records import ProbeRecord
    from metrobench.search.duration import RunTime
    from metrobench.search.mscs import Effort, Mscs, MscsSearch, Run
    from metrobench.servers import Server

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
    type=options.Whole(1, options.MAX_SESSIONS),
    default=1024,
    show_default=True,
    metavar="N",
    help="Never more sessions than this.",
)
@click.option(
    "--guess",
    type=options.Whole(1, options.MAX_SESSIONS),
    metavar="N",
    help="Start the search near this many sessions.",
)
@options.interleave
@options.time_limit
@options.resume
@options.audio
@options.seed
@options.output
@options.vllm_args
def capacity(
    as_json: bool,
    kv: str | None,
    max_time: str | None,
    dry_run: bool,
    interleave: tuple[str, str] | None,
    pairs: int,
    **asked: Any,
) -> None:
    """How many sessions a deployment sustains (MSCS), fresh server per run.

    Several policies, as in --kv unbounded,window:1024,window:1024+16, are measured one after another and compared;
    --max-time is for all of them together.
    """
    from metrobench.cli.output import say, say_json
    from metrobench.cli.request import several_policies
    from metrobench.errors import UsageError
    from metrobench.report import comparison
    from metrobench.units import parse_duration

    if interleave is not None:
        from metrobench.cli.interleave import searches

        sys.exit(searches(interleave, pairs, max_time, dry_run, as_json=as_json, kv=kv, **asked))
    policies = several_policies(kv)
    if asked["resume"] is not None and len(policies) > 1:
        raise UsageError("--resume goes on with one policy at a time", "give the --kv of that folder alone")
    allowed = parse_duration(max_time, name="--max-time") if max_time else None
    if dry_run:
        _tell(policies, allowed, as_json=as_json, **asked)
        return
    end = None if allowed is None else time.monotonic() + allowed
    benches: list[Bench] = []
    code = 0
    for number, policy in enumerate(policies):
        share = None if end is None else max(0.0, end - time.monotonic()) / (len(policies) - number)
        bench, found = _measure(policy, share, as_json=as_json, **asked)
        benches.append(bench)
        code = max(code, found)
        if bench.interrupts.signum:
            break
    records = [bench.record for bench in benches]
    if as_json:
        say_json(records if len(policies) > 1 else records[0])
    elif len(policies) > 1:
        say(comparison.table(records))
    sys.exit(benches[-1].exit_code(code))


@dataclass
class Planned:
    """One search under one policy, before anything of it has begun."""

    bench: Bench
    setting: Setting
    effort: Effort
    most: int
    guess: int | None


def plan_search(
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
) -> Planned:
    """Read the options; say where one of them could not be taken as it stands."""
    from metrobench.cli.bench import Bench
    from metrobench.cli.outlook import tell_raised
    from metrobench.cli.request import Request
    from metrobench.load.files import files_allowed, sessions_of_files
    from metrobench.search.mscs import EFFORTS
    from metrobench.units import parse_duration

    bench = Bench("capacity", Request(kv=policy, **asked), out, quiet or as_json)
    asked_span = parse_duration(duration, name="--duration") if duration else None
    setting = bench.setting(span=asked_span or EFFORTS[effort].span, stop_when_failed=True, extend_unresolved=True)
    files = files_allowed()
    most = max_sessions if files is None else min(max_sessions, max(1, sessions_of_files(files)))
    if most < max_sessions:
        bench.live.line(f"--max-sessions lowered to {most}: {files} open files are allowed (ulimit -Hn)")
    if guess is not None and guess > most:
        bench.live.line(f"--guess {guess} lowered to --max-sessions {most}")
        guess = most
    tell_raised(bench, duration, asked_span, setting.plan(most))
    bench.record.setting |= {"effort": effort, "max_sessions": most}
    if resume is not None:
        bench.resume(resume)
    return Planned(bench, setting, EFFORTS[effort], most, guess)


def _tell(policies: list[str | None], allowed: float | None, *, as_json: bool, **asked: Any) -> None:
    """What each search would do and how long it would take, on stdout; nothing else happens."""
    from metrobench.cli import outlook
    from metrobench.cli.output import say, say_json

    share = None if allowed is None else allowed / len(policies)
    found = []
    for policy in policies:
        plan = plan_search(policy, as_json=as_json, **asked)
        found.append(outlook.search_outlook(plan.bench, plan.setting, plan.effort, plan.most, plan.guess, share))
        if not as_json:
            say(outlook.text(found[-1]))
    if as_json:
        listed = [outlook.data(each) for each in found]
        say_json(listed if len(listed) > 1 else listed[0])


def _measure(policy: str | None, allowed: float | None, *, as_json: bool, **asked: Any) -> tuple[Bench, int]:
    """One search under one policy in `allowed` seconds, printed; the exit code it would have by itself."""
    from metrobench.cli.outlook import check_fits, check_machine, run_time, search_outlook
    from metrobench.cli.output import say
    from metrobench.report import terminal

    planned = plan_search(policy, as_json=as_json, **asked)
    bench, setting, most, guess = planned.bench, planned.setting, planned.most, planned.guess
    plan = setting.plan(most)
    outlook = search_outlook(bench, setting, planned.effort, most, guess, allowed)
    bench.limit_time(allowed)
    bench.record.setting["max_time"] = allowed
    check_machine(bench, outlook)
    check_fits(outlook)
    bench.consent(most, outlook.many_seconds)
    with bench.recorded():
        if not as_json:
            say(terminal.heading(bench.record, plan.span, fills=bench.fills))
        planned.setting = bench.with_audio(setting)
        with bench.server() as server:
            code = Search(planned, server, run_time(bench)).run()
    if not as_json:
        say(terminal.capacity(bench.record))
        say(f"report   {bench.folder.path / 'index.html'}")
    return bench, code


class Search:
    """One search, from the first guess to the interval."""

    def __init__(self, planned: Planned, server: Server, times: RunTime) -> None:
        self._bench = planned.bench
        self._setting = planned.setting
        self._server = server
        self._effort = planned.effort
        self._most = planned.most
        self._guess = planned.guess
        self._times = times
        self._runs: list[tuple[ProbeRecord, Verdict]] = []
        self._slow_in_a_row = 0
        self.code = 3
        """Exit code; 3 until the search is over."""

    def run(self) -> int:
        """Search, note the result in the record, return the exit code."""
        for _ in self.steps():
            pass
        return self.code

    def steps(self) -> Iterator[None]:
        """The same a run at a time, so that another search may take turns; `code` is known at the end."""
        from metrobench.search.mscs import Done, MscsSearch, Stop

        guess = self._first_guess()
        search = MscsSearch(self._effort, guess=guess, max_sessions=self._most)
        self._catch_up(search)
        while not isinstance(step := search.next_step(self._left()), Done):
            if self._bench.interrupts.signum is None and not self._fits(self._setting.plan(step.sessions)):
                search.halt(Stop.MAX_TIME)
                continue
            made = None if self._bench.stopped else self._probe(step)
            if made is None or made[0].outcome == "interrupted":
                search.halt(Stop.INTERRUPTED if self._bench.interrupts.signum else Stop.MAX_TIME)
            else:
                search.tell(step.sessions, made[1].outcome, narrow=made[1].narrow, transient=made[1].transient)
            yield
        result = search.result()
        self._finish(result, guess)
        unknown = result.hi is None and result.stop is not Stop.LOWER_BOUND
        self.code = 3 if result.stop is Stop.VOID_TWICE or unknown else 0

    def _left(self) -> int | None:
        """Runs that --max-time leaves time for, as long as the last one is thought to take; None: no end, or no run."""
        if not self._runs or math.isinf(self._bench.time_left):
            return None
        return int(self._bench.time_left / self._times.seconds(self._setting.plan(self._runs[-1][0].sessions)))

    def _fits(self, plan: Plan) -> bool:
        """The run would be over before --max-time is."""
        return self._times.seconds(plan) <= self._bench.time_left

    def _catch_up(self, search: MscsSearch) -> None:
        """Tell the search what the runs of the part before found."""
        import msgspec

        from metrobench.measure.verdict import Verdict
        from metrobench.search.replay import Told, replay

        made = [record for record in self._bench.record.probes if record.outcome != "interrupted"]
        self._runs = [(record, msgspec.convert(record.verdict, Verdict)) for record in made]
        verdicts = [verdict for _, verdict in self._runs]
        replay(search, [Told(each.sessions, each.outcome, each.narrow, each.transient) for each in verdicts])
        for record, verdict in self._runs:
            self._times.learn(record.sessions, record.start_seconds, record.fill_seconds)
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
        if not self._bench.stopped:
            setting["first_guess"] = found
        return found

    def _probe(self, step: Run) -> tuple[ProbeRecord, Verdict]:
        """One run of the search, on disk and in the record."""
        from metrobench.measure.plan import extended
        from metrobench.probe import MAX_SPAN_FACTOR, probe

        index = len(self._bench.record.probes) + 1
        name = f"{index:02d}-n{step.sessions}"
        seed = self._bench.request.seed + index
        folder = self._bench.folder.subfolder(name)
        length = self._setting.plan(step.sessions).seconds
        watch = self._bench.watch(f"run {index} · {step.sessions} sessions", length)
        setting = replace(
            self._setting,
            excuse_slow=self._slow_in_a_row < SLOW_EXCUSES,
            extend_unresolved=self._fits(extended(self._setting.plan(step.sessions), MAX_SPAN_FACTOR)),
        )
        record, verdict = probe(setting, self._server, step.sessions, seed, index, folder, watch)
        self._slow_in_a_row = self._slow_in_a_row + 1 if verdict.transient else 0
        self._times.learn(step.sessions, record.start_seconds, record.fill_seconds)
        self._runs.append((record, verdict))
        self._bench.add(record, f"probes/{name}")
        because = f" ({record.reasons[0]})" if record.reasons else ""
        self._bench.live.line(f"run {index} · {step.sessions} sessions · {step.why} · {record.outcome}{because}")
        return record, verdict

    def _finish(self, result: Mscs, guess: int | None) -> None:
        """Note what was found, what limits it, and the arithmetic beside it."""
        from metrobench.measure.slowdown import uneven
        from metrobench.measure.warnings import Warn
        from metrobench.report.search_result import search_result

        for warning in result.warnings:
            self._bench.warn(warning)
        if uneven([record.core_work for record, _ in self._runs if record.core_work]):
            self._bench.warn(Warn.MACHINE_UNEVEN)
        self._bench.record.result = search_result(self._bench.record, self._runs, result, guess)
