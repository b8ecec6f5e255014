"""`metrobench doctor`: can this machine measure?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from metrobench.cli import options


@click.command()
@options.model
@click.option(
    "--max-sessions",
    type=options.Whole(1, options.MAX_SESSIONS),
    default=1000,
    show_default=True,
    metavar="N",
    help="Most sessions that the pacing test offers.",
)
@click.option("--quick", is_flag=True, help="Leave the pacing test out: 8 s instead of about 25 s.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reports"),
    show_default=True,
    help="Folder whose disk is looked at.",
)
@options.as_json
@click.option("--quiet", is_flag=True, help="No progress.")
@options.debug
def doctor(model: str, max_sessions: int, quick: bool, out: Path, as_json: bool, quiet: bool) -> None:
    """Can this machine measure? Clock, timer, pacing, cores, steal, other programs, GPUs, vLLM, memory, disk.

    Exit code 0: what is measured here can be trusted; 3: not as it is now.
    """
    from metrobench.cli.live import Interrupts, Live
    from metrobench.cli.output import say, say_json
    from metrobench.doctor.check import is_sound, trusted_sessions, verdict
    from metrobench.doctor.examine import perform, tasks
    from metrobench.profiles import load_profile
    from metrobench.report.doctor import examination

    timing = load_profile(model).timing
    live = Live(quiet or as_json)
    with Interrupts() as interrupts, interrupts.at_once():
        checks = []
        for task in tasks(out, timing, max_sessions, live.status, quick=quick):
            checks += perform(task, live.status)
        live.clear()
    if as_json:
        result = {
            "sound": is_sound(checks),
            "verdict": verdict(checks),
            "trusted_sessions": trusted_sessions(checks),
            "checks": checks,
        }
        say_json(result)
    else:
        say(examination(checks))
    sys.exit(0 if is_sound(checks) else 3)
