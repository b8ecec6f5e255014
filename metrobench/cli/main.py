"""`metrobench`: the command line. One file per command; this one holds the table of commands and the way out."""

from __future__ import annotations

import importlib
import shutil
import signal
import sys
import textwrap
from pathlib import Path

import click

from metrobench import __version__
from metrobench.cli import config
from metrobench.cli.output import open_streams
from metrobench.errors import EXIT_CODES, MetrobenchError

COMMANDS = {
    "capacity": "How many sessions a deployment sustains (MSCS), fresh server per run.",
    "run": "One measured run at a fixed number of sessions.",
    "check": "One session end to end: does this endpoint answer, and how fast?",
    "collapse": "How often identical runs collapse, when, how, and what helps.",
    "predict-collapse": "When it will collapse: from shapes, a finished run or a server that runs.",
    "ramp": "Open system: sessions come and go, admission decides: N*, goodput, refusals.",
    "quality": "What a bounded KV cache costs in answers, by the age of a session.",
    "gate": "Is this no worse than the baseline? For CI: pass, fail or cannot tell.",
    "history": "Metrics of many records over time, and where they changed.",
    "serve": "The embedded worker alone, as a realtime WebSocket endpoint.",
    "replay": "A session that --record-wire recorded, as a server that says it again.",
    "report": "Stored records again: terminal, HTML, Markdown, CSV or JSON.",
    "profiles": "The model profiles: rates, KV per session-minute, sessions per GPU.",
    "corpus": "Audio corpora: what there is, is it whole, and more of it.",
    "doctor": "Can this machine measure? Clock, timer, pacing, cores, GPU, vLLM.",
}
"""Command name to its one-line help; the code is in metrobench/cli/NAME.py, dashes as underscores."""


class _LazyGroup(click.Group):
    """Imports a command's file only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"metrobench.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="metrobench")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """How many live conversations does a real-time speech deployment hold, for how long, and how will it fail?

    First try:  metrobench capacity --model minicpm-o --budget 1s
    """
    found = config.read_file(Path.cwd())
    if found is not None and isinstance(ctx.command, _LazyGroup):
        file, settings = found
        commands = {name: ctx.command.get_command(ctx, name) for name in COMMANDS}
        ctx.default_map = config.defaults(file, settings, {name: known for name, known in commands.items() if known})
        config.note(ctx, file)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with the exit code of measurement.md."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    open_streams()
    try:
        code = cli.main(arguments, prog_name="metrobench", standalone_mode=False)
    except MetrobenchError as error:
        if debug:
            raise
        _complain(error.message, error.hint)
        code = error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        code = 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "metrobench"
        _complain(error.format_message(), f"{where} --help shows what there is")
        code = 2
    except (KeyboardInterrupt, click.Abort) as error:
        # click turns a KeyboardInterrupt into its own Abort
        code = 128 + getattr(error.__cause__ or error, "signum", signal.SIGINT)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, hint: str) -> None:
    for line in (f"metrobench: {message}", f"  {hint}" if hint else ""):
        if line:
            print(_folded(line), file=sys.stderr)


def _folded(text: str) -> str:
    """Broken between words where a terminal would break within one; elsewhere a line stays a line."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    fold = textwrap.TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(part for line in text.splitlines() for part in fold.wrap(line))


if __name__ == "__main__":
    main()
