"""`metrobench predict-collapse`: when will it collapse? From shapes, a finished run, or a server that runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from metrobench.cli import options
from metrobench.errors import UsageError

FORMS = (
    "predict-collapse --model NAME --gpu NAME --sessions N  |  predict-collapse RUN  |  predict-collapse --metrics URL"
)
REPORTS = Path("reports")
SHAPES = ("model", "gpu", "sessions", "kv", "pool_tokens", "utilisation", "block_size", "kv_dtype", "rate", "speaking")
"""Options of the form that starts from shapes."""


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path), metavar="[RUN]")
@click.option("--model", metavar="NAME", help="Model profile: a name, or the path of a .toml file.")
@click.option("--gpu", metavar="NAME", help="GPU, for example H200. [default: the profile's]")
@click.option("--sessions", metavar="N[@AGE],...", help="Sessions; 48,16@5m,20@+30s: of these ages, or yet to come.")
@click.option("--kv", metavar="POLICY", help="KV policy of the sessions. [default: the profile's]")
@click.option("--pool-tokens", type=options.Whole(1, 10**10), metavar="N", help="KV pool in tokens, instead of --gpu.")
@click.option("--utilisation", metavar="SHARE", help="Share of the GPU's memory for the engine. [default: 90%]")
@click.option("--block-size", type=options.Whole(1, 4096), metavar="N", help="Tokens in a KV block. [default: 16]")
@click.option("--kv-dtype", type=click.Choice(["auto", "fp8"]), help="Type of the KV cache. [default: auto]")
@click.option("--rate", metavar="RATE", help="Sessions arrive at this rate, for example 8/s. [default: together]")
@click.option("--speaking", metavar="SHARE", help="Share of the frames in which the model speaks. [default: corpus]")
@click.option("--duration", metavar="TIME", help="Probability that the pool is full before this time.")
@options.independent_audio
@options.seed
@click.option("--probe", type=options.Whole(1), metavar="N", help="Which measured run of RUN. [default: the fullest]")
@click.option("--metrics", metavar="URL", help="Metrics page of a vLLM or SGLang server that runs.")
@click.option("--watch", is_flag=True, help="Follow --metrics, and count down, until interrupted.")
@click.option("--every", metavar="TIME", help="Time between two looks at --metrics. [default: 5s]")
@click.option("--fail-below", metavar="TIME", help="Exit 1 once collapse is nearer than this.")
@options.as_json
@click.option("--quiet", is_flag=True, help="No progress.")
@options.debug
def predict_collapse(run: Path | None, metrics: str | None, as_json: bool, quiet: bool, **asked: Any) -> None:
    """When will the sessions' KV cache, or another limit, end everything?

    From shapes (--model, --gpu, --sessions), from a finished run (its folder; the newest one under ./reports by
    default), or from a server that runs (--metrics).
    """
    shapes = [name for name in SHAPES if asked[name] is not None]
    forms = [bool(shapes), run is not None, metrics is not None]
    if sum(forms) > 1:
        raise UsageError("these are several questions at once", f"ask one of: {FORMS}")
    if metrics is None and (asked["watch"] or asked["every"] is not None):
        raise UsageError("--watch and --every go with --metrics URL")
    if shapes:
        sys.exit(_from_shapes(asked, as_json))
    if metrics is not None:
        from metrobench.cli.watch_metrics import follow

        sys.exit(follow(metrics, asked["watch"], asked["every"], asked["fail_below"], as_json, quiet))
    if asked["fail_below"] is not None:
        raise UsageError("--fail-below goes with --model or --metrics: a finished run has no future")
    _from_run(run or _newest(REPORTS), asked["probe"], as_json)


def _from_shapes(asked: dict[str, Any], as_json: bool) -> int:
    from metrobench.cli.output import say, say_json
    from metrobench.cli.shapes import scenario
    from metrobench.predict.scenario import predict
    from metrobench.report import forecast
    from metrobench.units import parse_duration

    below = asked["fail_below"]
    limit = None if below is None else parse_duration(below, name="--fail-below")
    made, title = scenario(asked)
    found = predict(made)
    if as_json:
        say_json({"title": title, "prediction": found, "first": found.first})
    else:
        say(forecast.prediction(found, title))
    first = found.first
    return int(limit is not None and first is not None and first.time is not None and first.time < limit)


def _from_run(folder: Path, number: int | None, as_json: bool) -> None:
    from metrobench.cli.output import say, say_json
    from metrobench.report import forecast
    from metrobench.report.review_run import reviewed

    found, title = reviewed(folder, number)
    if as_json:
        say_json({"title": title, "review": found})
    else:
        say(forecast.review(found, title))


def _newest(reports: Path) -> Path:
    """The newest run under `reports`; committed reference runs carry plain names and are passed over."""
    folders = sorted(reports.glob("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*/run.json"), reverse=True)
    if not folders:
        raise UsageError(f"no run under ./{reports}: what should be predicted?", f"ask one of: {FORMS}")
    return folders[0].parent
