"""`metrobench quality`: what a bounded KV cache costs in answers, by the age of a session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from metrobench.cli import options

TEXT_MODEL, SPOKEN_MODEL = "smollm2", "minicpm-o"
TEXT_ONLY = ("kv", "find_window", "questions", "answer", "temperature", "text", "chat", "no_rerender")
SPOKEN_ONLY = (
    *("protocol", "served_model", "headers", "token_env", "token_file", "session", "ca_file", "insecure"),
    *("duration", "deadline", "at_once", "yes", "audio", "language"),
)
"""Options of one form of the probe."""
DEFAULT_KV = "unbounded,window:128,window:256,window:128+32"


@click.command()
@click.option(
    "--kv",
    default=DEFAULT_KV,
    show_default=True,
    metavar="POLICY,...",
    help="KV policies to compare: unbounded, window:W (vLLM's own), window:W+S (with attention sinks), recycle:W.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="smollm2 (fetched once, no model hub), hf:ID, or the folder of a checkpoint. [default: smollm2]"
    " With --endpoint: its model profile. [default: minicpm-o]",
)
@click.option(
    "--sessions", type=options.Whole(1, 256), default=12, show_default=True, metavar="N", help="Sessions of each arm."
)
@click.option(
    "--questions",
    type=options.Whole(1, 100),
    default=24,
    show_default=True,
    metavar="N",
    help="Questions that each session is asked.",
)
@click.option(
    "--answer",
    type=options.Whole(4, 512),
    default=16,
    show_default=True,
    metavar="TOKENS",
    help="Tokens of an answer; longer ones make sessions older.",
)
@click.option(
    "--temperature",
    type=options.Real(0.0, 2.0),
    default=0.0,
    show_default=True,
    metavar="T",
    help="Sampling temperature; 0 takes the likeliest token.",
)
@click.option(
    "--text",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also read this text, and tell how likely it is by position.",
)
@click.option(
    "--find-window",
    metavar="W,W,...",
    help="In place of --kv: search the smallest of these windows that costs no answers, with sinks and without.",
)
@click.option("--chat", is_flag=True, help="Also ask in turns of a chat template whose KV stays.")
@click.option("--no-rerender", is_flag=True, help="Leave the control out whose turns are computed anew.")
@options.endpoint
@click.option(
    "--duration", default="5m", show_default=True, metavar="TIME", help="With --endpoint: length of a long session."
)
@click.option(
    "--deadline",
    default="10s",
    show_default=True,
    metavar="TIME",
    help="With --endpoint: an answer is in time that is complete so long after the question; a later one is late, not"
    " wrong.",
)
@click.option(
    "--at-once",
    type=options.Whole(1, 256),
    default=6,
    show_default=True,
    metavar="N",
    help="With --endpoint: sessions side by side.",
)
@options.yes
@options.corpus
@options.seed
@options.output
@click.pass_context
def quality(
    ctx: click.Context,
    /,
    model: str | None,
    sessions: int,
    seed: int,
    out: Path,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """What a bounded KV cache costs in answers, by the age of a session.

    Asks a real model easy questions in long sessions, under each KV policy, and says whether it goes on answering, with
    intervals over sessions, and whether the comparison can be believed. Exit code 3: it cannot.

    With --endpoint the questions are spoken, to whatever answers there: each in a fresh session first, then many in
    long ones.
    """
    _check_together(ctx, asked["endpoint"])
    common: dict[str, Any] = {"sessions": sessions, "seed": seed, "out": out, "as_json": as_json, "quiet": quiet}
    of_text = {name: asked.pop(name) for name in TEXT_ONLY}
    if asked["endpoint"] is not None:
        from metrobench.cli.quality_spoken import spoken

        sys.exit(spoken(model=model or SPOKEN_MODEL, **common, **asked))
    from metrobench.cli.quality_run import written
    from metrobench.errors import UsageError

    if of_text["find_window"] is not None and _typed(ctx, "kv"):
        raise UsageError("--kv and --find-window are two lists of policies", "give one of them")
    sys.exit(written(model=model or TEXT_MODEL, **common, **of_text))


def _typed(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _check_together(ctx: click.Context, endpoint: str | None) -> None:
    """Raises UsageError for an option of the other form."""
    from metrobench.errors import UsageError

    for name in SPOKEN_ONLY if endpoint is None else TEXT_ONLY:
        if _typed(ctx, name):
            [option] = [each.opts[0] for each in ctx.command.params if each.name == name]
            if endpoint is None:
                raise UsageError(f"{option} goes with --endpoint")
            hint = "that is the endpoint's own choice"
            if name in ("questions", "answer"):
                hint = "--sessions and --duration decide how much is asked"
            raise UsageError(f"{option} does not go with --endpoint", hint)
