"""The options that several commands share: their names, bounds and help, written once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

MAX_SESSIONS = 10_000
"""Most sessions one load process is trusted with."""

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Real(click.FloatRange):
    """A number within bounds; not-a-number lies within none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As typed to float. Fails as click does."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


def group(*options: Decorator[Any]) -> Decorator[Any]:
    """Several options as one decorator, in the order they are written."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


model = click.option(
    "--model",
    default="minicpm-o",
    show_default=True,
    metavar="NAME",
    help="Model profile: a name, or the path of a .toml file.",
)
budget = click.option(
    "--budget", metavar="TIME", help="Frame budget B, for example 80ms or 1s. [default: the profile's]"
)
objective = group(
    click.option(
        "--miss-rate",
        metavar="RATE",
        help="Largest share of frames that may miss the budget. [default: 1%]",
    ),
    click.option("--slo", metavar="RULE", help='Latency objective instead of the miss rate, for example "p99<=1s".'),
)
worker = group(
    click.option(
        "--kv",
        metavar="POLICY",
        help="KV policy: unbounded, window:W (vLLM's own), window:W+S (with attention sinks) or recycle:W."
        " [default: the profile's]",
    ),
    click.option(
        "--weights",
        default="auto",
        show_default=True,
        metavar="KIND",
        help="auto, standin (a small transformer), dummy (the real shape) or hf:ID.",
    ),
    click.option(
        "--pool-tokens",
        type=Whole(1, 10**10),
        metavar="N",
        help="KV pool in tokens. [default: the profile's reference GPU]",
    ),
    click.option(
        "--slow", metavar="RATE", hidden=True, help="Slow every engine step by this much, to see that a gate finds it."
    ),
)
access = group(
    click.option("--served-model", metavar="NAME", help="The model's name at --endpoint, where it serves several."),
    click.option(
        "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Handshake header; may be repeated."
    ),
    click.option("--token-env", metavar="VARIABLE", help="Environment variable that holds the endpoint's token."),
    click.option("--token-file", metavar="FILE", help="File that holds the endpoint's token."),
    click.option(
        "--session", metavar="FILE", help="JSON object merged into the session's settings: voice, language, VAD..."
    ),
    click.option("--ca-file", metavar="FILE", help="Certificate authorities (PEM) to trust for wss:// and https://."),
    click.option("--insecure", is_flag=True, help="Accept any certificate."),
)
endpoint = group(
    click.option(
        "--endpoint", metavar="URL", help="Measure this ws:// or http:// address instead of an embedded worker."
    ),
    click.option(
        "--protocol",
        default="realtime",
        show_default=True,
        metavar="NAME",
        help="Wire protocol of --endpoint; auto: find out by asking it.",
    ),
    access,
)
yes = click.option("--yes", is_flag=True, help="Do not ask before loading an address that is not this machine.")
server = group(
    endpoint,
    click.option(
        "--restart-cmd",
        metavar="COMMAND",
        help="Run this before each run, so that it meets a fresh server at --endpoint.",
    ),
    click.option("--health", metavar="URL", help="http address that answers once --restart-cmd's server is ready."),
    yes,
    worker,
)
record_wire = click.option(
    "--record-wire",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write down what the server says to one session, for `metrobench replay`; no secrets, no audio sent.",
)
interleave = group(
    click.option(
        "--interleave",
        nargs=2,
        metavar="A B",
        help="Measure two KV policies, or two ws:// addresses, alternately and compare them pair by pair.",
    ),
    click.option(
        "--pairs",
        type=Whole(1, 100),
        default=3,
        show_default=True,
        metavar="N",
        help="How often --interleave measures both.",
    ),
)


def admission(default: str) -> Decorator[Any]:
    """`--admission`, None where it is not given; `default`: what the command takes then."""
    return click.option(
        "--admission",
        metavar="RULE",
        help="Who may join: none, static:N, kv (as many as fit the KV pool for ever), aimd (by frame latency) or"
        f" aimd+kv. [default: {default}]",
    )


order = click.option(
    "--order",
    default="arrival",
    show_default=True,
    metavar="RULE",
    help="In which order frames go to the engine: arrival, deadline:K (at most K at once, the most urgent first) or"
    " deadline:K@20ms (the same, let in every 20 ms).",
)
vllm_args = click.argument("vllm_args", nargs=-1, type=click.UNPROCESSED, metavar="[-- VLLM_ARGUMENTS]")
time_limit = group(
    click.option("--max-time", metavar="TIME", help="End after this long at most, with what was found by then."),
    click.option(
        "--dry-run", is_flag=True, help="Say what would run and how long it would take; start and write nothing."
    ),
)
corpus = group(
    click.option(
        "--audio",
        metavar="NAME",
        help="Corpus to speak: a name from `metrobench corpus list`, or a folder of audio files."
        " [default: the shipped one]",
    ),
    click.option("--language", metavar="CODE", help="Only clips in this language, for example en."),
)


def _audio(talk: str) -> Decorator[Any]:
    return group(
        corpus,
        click.option(
            "--noise",
            metavar="SNR",
            help="Background noise this far below the speech: 10dB, 10dB:pink or 10dB:babble. It goes on in pauses.",
        ),
        click.option(
            "--gain", metavar="DB", help="Make the clips louder or quieter, never so that they clip: 6dB, -12dB."
        ),
        click.option(
            "--talk",
            type=click.Choice(["paired", "half", "continuous", "dialogue"]),
            default=talk,
            show_default=True,
            help="When users talk: in turns two by two, half of the time each as it comes, without pause, or as in a"
            " telephone call (ITU-T P.59).",
        ),
    )


audio = _audio("paired")
"""For a level that is measured: at any moment as many users talk as at any other."""
independent_audio = _audio("half")
"""For what chance decides: who talks when is each user's own."""
seed = click.option(
    "--seed",
    type=Whole(0, 2**31 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of phases, audio order and tokens.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
debug = click.option("--debug", is_flag=True, expose_value=False, help="Full traceback on an error.")
resume = click.option(
    "--resume",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Go on in the folder of a command that was stopped; the other options must be as they were.",
)
quiet = click.option("--quiet", is_flag=True, help="No progress.")
minutes = click.option(
    "--minutes",
    type=Real(0.1, 100_000.0),
    metavar="N",
    help="Keep at most this many minutes of speech, evenly from all speakers.",
)
output = group(
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("reports"),
        show_default=True,
        help="Where the run folder is made.",
    ),
    as_json,
    quiet,
    debug,
)
