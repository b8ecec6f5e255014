"""`metrobench collapse`: how often do identical runs collapse, when, how, and what brings the server back?"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.cli.bench import Bench
    from metrobench.predict.odds import Odds
    from metrobench.probe import Setting
    from metrobench.search.trials import Planned
    from metrobench.servers import EmbeddedServer

MAX_TRIALS = 1_000


@click.command()
@click.option(
    "--sessions", type=options.Whole(1, options.MAX_SESSIONS), required=True, metavar="N", help="Concurrent sessions."
)
@click.option(
    "--trials",
    type=options.Whole(1, MAX_TRIALS),
    default=20,
    show_default=True,
    metavar="N",
    help="Runs of each policy.",
)
@click.option(
    "--duration", default="2m", show_default=True, metavar="TIME", help="Measured time of each run, after the cut."
)
@click.option("--no-aftermath", is_flag=True, help="Do not try what brings a collapsed server back.")
@click.option("--unguarded", is_flag=True, help="Leave the model's last position to the engine, which dies of it.")
@options.resume
@options.model
@options.budget
@options.worker
@options.independent_audio
@options.seed
@options.output
@options.vllm_args
def collapse(
    sessions: int,
    trials: int,
    duration: str,
    no_aftermath: bool,
    unguarded: bool,
    resume: Path | None,
    kv: str | None,
    out: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """How often identical runs collapse: fresh worker per trial, policies interleaved."""
    from metrobench.cli.bench import Bench
    from metrobench.cli.outlook import tell_raised
    from metrobench.cli.output import say, say_json
    from metrobench.cli.request import Request, several_policies
    from metrobench.report import collapse_table
    from metrobench.search.trials import plan_trials
    from metrobench.servers import check_room
    from metrobench.units import parse_duration

    span = parse_duration(duration, name="--duration")
    policies = several_policies(kv)
    request = Request(kv=policies[0], miss_rate=None, slo=None, endpoint=None, protocol="realtime", **asked)
    bench = Bench("collapse", request, out, quiet or as_json)
    setting = replace(
        bench.setting(span=span, stop_when_failed=False, extend_unresolved=False), aftermath=not no_aftermath
    )
    plan = setting.plan(sessions)
    tell_raised(bench, duration, span, plan)
    chosen = [bench.on_blocks(policy) for policy in policies]
    for policy in chosen:
        check_room(bench.profile, policy, bench.request.pool_tokens)
    asked_for = [str(policy) for policy in chosen]
    bench.record.setting |= {
        "kv": ",".join(asked_for),
        "span": plan.span,
        "sessions": sessions,
        "trials": trials,
        "aftermath": not no_aftermath,
        "unguarded": unguarded,
    }
    if resume is not None:
        bench.resume(resume)
    with bench.recorded():
        if not as_json:
            say(collapse_table.heading(bench.record))
        planned = plan_trials(asked_for, trials)
        left = planned[len(bench.record.probes) :]
        if left:
            setting = bench.with_audio(setting)
            with bench.embedded() as server:
                _run(bench, setting, server.guarded(not unguarded), left, len(planned), sessions)
        collapse_table.conclude(bench.record, bench.folder.path, _model(bench, setting))
    if as_json:
        say_json(bench.record)
    else:
        say(collapse_table.text(bench.record))
        say(f"report   {bench.folder.path / 'index.html'}")
    sys.exit(bench.exit_code())


def _run(
    bench: Bench, setting: Setting, server: EmbeddedServer, planned: list[Planned], total: int, sessions: int
) -> None:
    """Make the trials that are left, one after another; an interrupt ends the batch after the trial it struck."""
    from metrobench.policy import parse_policy
    from metrobench.probe import probe

    for step in planned:
        policy = parse_policy(step.policy)
        name = f"{step.number:03d}-{step.policy.replace(':', '-')}"
        folder = bench.folder.subfolder(name)
        watch = bench.watch(f"trial {step.number} of {total} · {step.policy}", setting.plan(sessions).seconds)
        # the same seed for every policy of a round: the same audio, another fate
        seed = bench.request.seed + step.repeat
        found, verdict = probe(
            replace(setting, policy=policy), server.under(policy), sessions, seed, step.number, folder, watch
        )
        if bench.interrupts.signum:
            return
        bench.add(found, f"probes/{name}")
        bench.live.line(f"trial {step.number} of {total} · {step.policy} · {_words(verdict)}")


def _model(bench: Bench, setting: Setting) -> dict[str, Odds]:
    """For each policy without a bound: the probability that the pool is full early enough to be named, by the model."""
    from msgspec import convert, structs

    from metrobench.corpus.stream import load_table
    from metrobench.measure.collapse import Collapse, Kind
    from metrobench.policy import parse_policy
    from metrobench.predict.odds import foreseen, last_named, odds
    from metrobench.predict.review import pool_of
    from metrobench.predict.talk import rates_of, voices_of
    from metrobench.report.collapse_table import watched
    from metrobench.worker.features import SILENCE_DBFS

    found: dict[str, Odds] = {}
    for probe in bench.record.probes:
        pool, policy = pool_of(probe.server), probe.kv
        if pool is None or policy in found or parse_policy(policy).bounded or setting.table is None:
            continue
        bench.live.status("drawing talk patterns")
        talk = voices_of(load_table(setting.table), SILENCE_DBFS, setting.talk)
        verdict, rates = probe.verdict, rates_of(setting.profile.timing)
        before = last_named(verdict["cut"], verdict["span"], setting.budget)
        # other seeds than those of the trials: the model must not know who talks when
        seed = bench.request.seed + int(bench.record.setting["trials"]) + 1
        told = odds(pool, probe.sessions, rates, talk, setting.budget, seed, before)
        seen = [(each.seed, convert(each.verdict["collapse"], Collapse)) for each in watched(bench.record, policy)]
        trials = [(seed, end.in_incidence) for seed, end in seen if end.kind is not Kind.ENGINE_DEATH]
        own = foreseen(pool, probe.sessions, rates, talk, setting.budget, before, trials)
        found[policy] = structs.replace(told, own=own)
    return found


def _words(verdict: Any) -> str:
    from metrobench.units import seconds

    found = verdict.collapse
    return found.kind.value if found.observed is None else f"{found.kind.value} at {seconds(found.observed)}"
