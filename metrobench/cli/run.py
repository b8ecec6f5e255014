"""`metrobench run`: one measured run at a fixed number of sessions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.cli.bench import Bench
    from metrobench.probe import Setting
    from metrobench.records import ProbeRecord
    from metrobench.servers import Server


@click.command()
@click.option(
    "--sessions", type=options.Whole(1, options.MAX_SESSIONS), required=True, metavar="N", help="Concurrent sessions."
)
@click.option(
    "--duration", default="1m", show_default=True, metavar="TIME", help="Measured time of each session, after the cut."
)
@options.admission("kv")
@options.model
@options.budget
@options.objective
@options.server
@options.record_wire
@options.interleave
@options.time_limit
@options.audio
@options.seed
@options.output
@options.vllm_args
def run(
    sessions: int,
    duration: str,
    admission: str | None,
    max_time: str | None,
    dry_run: bool,
    interleave: tuple[str, str] | None,
    pairs: int,
    out: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """One measured run at a fixed number of sessions."""
    from metrobench.admission.choice import KV, parse_admission
    from metrobench.cli import outlook
    from metrobench.cli.bench import Bench
    from metrobench.cli.output import say, say_json
    from metrobench.cli.request import Request
    from metrobench.report import terminal
    from metrobench.servers import EmbeddedServer, check_admission
    from metrobench.units import parse_duration

    if interleave is not None:
        from metrobench.cli.interleave import runs
        from metrobench.errors import UsageError

        if admission is not None:
            raise UsageError("--admission and --interleave do not go together")
        if asked["record_wire"] is not None:
            raise UsageError("--record-wire and --interleave do not go together")
        how: dict[str, Any] = {"out": out, "as_json": as_json, "quiet": quiet, **asked}
        sys.exit(runs(interleave, pairs, max_time, dry_run, sessions=sessions, duration=duration, **how))
    span = parse_duration(duration, name="--duration")
    check_admission(admission, asked["endpoint"])
    choice = parse_admission(admission or KV)
    bench = Bench("run", Request(**asked), out, quiet or as_json)
    setting = bench.setting(span=span, stop_when_failed=False, extend_unresolved=False)
    plan = setting.plan(sessions)
    allowed = parse_duration(max_time, name="--max-time") if max_time else None
    outlook.tell_raised(bench, duration, span, plan)
    ahead = outlook.run_outlook(bench, setting, sessions, allowed)
    if dry_run:
        say_json(outlook.data(ahead)) if as_json else say(outlook.text(ahead))
        return
    bench.limit_time(allowed)
    bench.record.setting["max_time"] = allowed
    if admission is not None:
        bench.record.setting["admission"] = str(choice)
    outlook.check_machine(bench, ahead)
    outlook.check_fits(ahead)
    bench.consent(sessions, plan.seconds)
    with bench.recorded():
        if not as_json:
            say(terminal.heading(bench.record, plan.span, fills=bench.fills))
        setting = bench.with_audio(setting)
        with bench.server() as server:
            if isinstance(server, EmbeddedServer):
                server = server.admitting(choice, bench.budget)
            found = measure(bench, setting, server, sessions)
    if as_json:
        say_json(bench.record)
    else:
        say(terminal.run(bench.record, found))
        say(f"report   {bench.folder.path / 'index.html'}")
    sys.exit(bench.exit_code(3 if found.outcome in ("void", "interrupted") else 0))


def measure(bench: Bench, setting: Setting, server: Server, sessions: int) -> ProbeRecord:
    """The run, on disk and in the record."""
    from metrobench.probe import probe
    from metrobench.report import terminal

    watch = bench.watch(f"{sessions} sessions", setting.plan(sessions).seconds)
    found, _ = probe(setting, server, sessions, bench.request.seed, 1, bench.folder.path, watch)
    if found.outcome == "interrupted" and not bench.interrupts.signum:
        found.reasons.append("stopped at --max-time")
    bench.add(found, ".")
    bench.record.result = {"arithmetic": terminal.arithmetic(bench.profile, bench.policy, setting.budget)}
    return found
