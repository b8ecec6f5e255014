"""`metrobench quality`: what a bounded KV cache costs in answers, by the age of a session."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from metrobench.cli import options

DEFAULT_KV = "unbounded,window:128,window:256,window:128+32"


@click.command()
@click.option(
    "--kv",
    default=DEFAULT_KV,
    show_default=True,
    metavar="POLICY,...",
    help="KV policies to compare: unbounded, window:W (vLLM's own), window:W+S (with attention sinks).",
)
@click.option(
    "--model",
    default="smollm2",
    show_default=True,
    metavar="NAME",
    help="smollm2 (fetched once, no model hub), hf:ID, or the folder of a checkpoint.",
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
    type=click.FloatRange(0.0, 2.0),
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
@click.option("--chat", is_flag=True, help="Also ask in turns of a chat template whose KV stays.")
@click.option("--no-rerender", is_flag=True, help="Leave the control out whose turns are computed anew.")
@options.seed
@options.output
def quality(
    kv: str,
    model: str,
    sessions: int,
    questions: int,
    answer: int,
    temperature: float,
    text: Path | None,
    chat: bool,
    no_rerender: bool,
    seed: int,
    out: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """What a bounded KV cache costs in answers, by the age of a session.

    Asks a real model easy questions in long sessions, under each KV policy, and says whether it goes on answering, with
    intervals over sessions, and whether the comparison can be believed. Exit code 3: it cannot.
    """
    from metrobench.cli.live import Live
    from metrobench.cli.output import say, say_json
    from metrobench.cli.quality_run import measured
    from metrobench.environment import describe_machine, usable_cores
    from metrobench.quality import arms
    from metrobench.quality.run import Setting, session_length
    from metrobench.quality.weights import find
    from metrobench.report import quality_table
    from metrobench.worker.launcher import need_vllm

    machine = describe_machine()
    block = 16 if machine.gpus else 32
    policies, controls = arms.choose_policies(kv, block)
    need_vllm()
    live = Live(quiet or as_json)
    setting = Setting(
        folder=find(model, live.line),
        policies=policies,
        controls=controls,
        block=block,
        sessions=sessions,
        questions=questions,
        answer=answer,
        temperature=temperature,
        seed=seed,
        chat=chat,
        rendered=not no_rerender,
        dtype="auto",
        parallel=1 if machine.gpus else min(2, len(usable_cores())),
        text="" if text is None else _read(text),
    )
    session_length(setting)
    record, folder, code = measured(setting, model, machine, out, live, None if as_json else say)
    if as_json:
        say_json(record)
    else:
        say(quality_table.text(record))
        say(f"report   {folder / 'index.html'}")
    sys.exit(code)


def _read(path: Path) -> str:
    """A text of at least two words. Raises UsageError."""
    from metrobench.errors import UsageError

    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise UsageError(f"--text {path} cannot be read: {error.strerror}") from error
    if len(text.split()) < 2:
        raise UsageError(f"--text {path} holds no text")
    return text
