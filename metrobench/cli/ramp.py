"""`metrobench ramp`: an open system. Sessions arrive, admission decides, those admitted talk and leave."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.admission.choice import Choice
    from metrobench.admission.timetable import Timetable
    from metrobench.admission.workload import Workload
    from metrobench.cli.bench import Bench
    from metrobench.open_probe import OpenRun
    from metrobench.probe import Setting
    from metrobench.worker.turnstile import Order

JOIN, JOIN_FULL = 1.0, 10.0
"""Seconds a session has from its arrival to its acceptance; where it is filled first."""


@click.command()
@click.option(
    "--offer", type=options.Whole(1, options.MAX_SESSIONS), required=True, metavar="N", help="Sessions that arrive."
)
@click.option("--rate", metavar="RATE", help="How fast they arrive, for example 8/s. [default: the workload's]")
@click.option("--hold", metavar="TIME", help="How long each stays, in the mean. [default: the workload's]")
@click.option(
    "--workload",
    default="steady",
    show_default=True,
    metavar="NAME",
    help="Who calls, when, for how long: a shipped workload, or the path of a .toml file.",
)
@options.admission("aimd+kv")
@options.order
@options.model
@options.budget
@options.server
@options.time_limit
@options.independent_audio
@options.seed
@options.output
@options.vllm_args
@click.pass_context
def ramp(
    ctx: click.Context,
    /,
    offer: int,
    rate: str | None,
    hold: str | None,
    workload: str,
    admission: str | None,
    order: str,
    max_time: str | None,
    dry_run: bool,
    out: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Open system: sessions come and go, admission decides. N*, goodput, refusals."""
    from metrobench.admission.choice import AIMD_KV, parse_admission
    from metrobench.admission.workload import load_workload
    from metrobench.cli import outlook
    from metrobench.cli.bench import Bench
    from metrobench.cli.output import say, say_json
    from metrobench.cli.request import Request
    from metrobench.report import ramp_table
    from metrobench.servers import check_admission, check_order
    from metrobench.units import parse_duration
    from metrobench.worker.turnstile import parse_order

    calls = load_workload(workload)
    given = {name for name in ("talk", "noise", "language") if _typed(ctx, name)}
    request = Request(miss_rate=None, slo=None, **asked | _audio(calls, given))
    check_admission(admission, request.endpoint)
    check_order(order, request.endpoint)
    choice, ordered = parse_admission(admission or AIMD_KV), parse_order(order)
    allowed = parse_duration(max_time, name="--max-time") if max_time else None
    bench = Bench("ramp", request, out, quiet or as_json)
    ramped = _plan(bench, calls, choice, ordered, offer, rate, hold)
    ahead = outlook.ramp_outlook(bench, ramped.setting, ramped.offered, allowed)
    if dry_run:
        say_json(outlook.data(ahead)) if as_json else say(outlook.text(ahead))
        return
    bench.limit_time(allowed)
    bench.record.setting["max_time"] = allowed
    outlook.check_machine(bench, ahead)
    outlook.check_fits(ahead)
    bench.consent(offer, bench.record.setting["length"])
    with bench.recorded():
        if not as_json:
            say(ahead.heading)
        found = _measure(bench, ramped)
    if as_json:
        say_json(bench.record)
    else:
        say(ramp_table.text(bench.record))
        say(f"report   {bench.folder.path / 'index.html'}")
    sys.exit(bench.exit_code(3 if found.findings.client_limited or not found.whole else 0))


@dataclass(frozen=True)
class _Ramp:
    """One open system, before anything of it has begun."""

    setting: Setting
    offered: Timetable
    choice: Choice
    order: Order
    full: bool
    """Sessions are filled first, where that can be done."""


def _plan(
    bench: Bench, calls: Workload, choice: Choice, order: Order, offer: int, rate: str | None, hold: str | None
) -> _Ramp:
    """Who comes when, noted in the record. Raises UsageError."""
    from metrobench.admission.workload import timetable
    from metrobench.units import parse_duration, parse_frequency

    join = JOIN_FULL if calls.full else JOIN
    each = parse_duration(hold, name="--hold") if hold else calls.holding.mean_s
    pace = parse_frequency(rate, name="--rate") if rate else calls.arrivals.rate
    unit, seed = bench.stream.unit, bench.request.seed
    plan = timetable(calls, offer, rate=pace, hold=each, budget=bench.budget, unit=unit, join=join, seed=seed)
    setting = bench.setting(span=None, stop_when_failed=False, extend_unresolved=False)
    bench.record.setting |= {
        "offer": offer,
        "rate": pace,
        "hold": each,
        "workload": calls.name,
        "arrivals": calls.arrivals.process,
        "full": calls.full and bench.policy.bounded,
        "admission": str(choice) if bench.request.endpoint is None else None,
        "order": str(order) if bench.request.endpoint is None else None,
        "length": round(float(plan.ends(unit).max()) + bench.budget, 1),
    }
    return _Ramp(setting, plan, choice, order, calls.full)


def _measure(bench: Bench, ramped: _Ramp) -> OpenRun:
    """The run, on disk and in the record."""
    from metrobench.open_probe import open_probe
    from metrobench.probe import discard_raw
    from metrobench.report import ramp_table, terminal
    from metrobench.servers import EmbeddedServer
    from metrobench.units import seconds

    setting, folder, seed = bench.with_audio(ramped.setting), bench.folder.path, bench.request.seed
    with bench.server() as server:
        if isinstance(server, EmbeddedServer):
            server = server.admitting(ramped.choice, bench.budget).ordered(ramped.order)
        watch = bench.watch("ramp", bench.record.setting["length"])
        found = open_probe(setting, server, ramped.offered, ramped.full, seed, folder, watch)
        discard_raw(folder)
    if not found.whole and not bench.interrupts.signum:
        come, allowed = found.findings.offered, seconds(bench.record.setting["max_time"])
        found.complaints.append(f"stopped at --max-time {allowed}, when {come} of {len(ramped.offered)} had come")
    arithmetic = terminal.arithmetic(bench.profile, bench.policy, setting.budget)
    bench.record.result = ramp_table.result(found) | {"arithmetic": arithmetic}
    return found


def _typed(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)


def _audio(workload: Workload, given: set[str]) -> dict[str, str]:
    """How the workload's callers talk, where the command line does not say otherwise."""
    audio = {"talk": workload.audio.talk, "noise": workload.audio.noise, "language": workload.audio.language}
    return {name: value for name, value in audio.items() if value is not None and name not in given}
