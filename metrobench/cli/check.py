"""`metrobench check`: one session end to end."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.endpoints.base import Stream

FRAMES = 5
"""Fewest frames that the check streams."""
SECONDS = 2.0
"""Shortest stretch of audio that it streams: an answer within it counts, however late for a frame of 80 ms."""


def _frames(stream: Stream) -> int:
    """Frames to stream; of turns and segments two are enough to see an answer."""
    from metrobench.endpoints.base import FrameClass

    if stream.frame_class in (FrameClass.TURN, FrameClass.SEGMENT):
        return 2
    return max(FRAMES, math.ceil(SECONDS / stream.unit))


@click.command()
@options.model
@options.budget
@options.server
@options.record_wire
@options.audio
@options.seed
@options.output
@options.vllm_args
def check(out: Path, as_json: bool, quiet: bool, **asked: Any) -> None:
    """One session end to end: does this endpoint answer, and how fast?"""
    from metrobench.cli.bench import Bench
    from metrobench.cli.output import say, say_json
    from metrobench.cli.request import Request
    from metrobench.probe import probe_plan
    from metrobench.report import terminal

    bench = Bench("check", Request(miss_rate=None, slo=None, **asked), out, quiet or as_json)
    setting = bench.setting(span=None, stop_when_failed=False, extend_unresolved=False)
    plan = setting.short_plan(_frames(setting.stream))
    with bench.recorded():
        setting = bench.with_audio(setting)
        with bench.server() as server:
            watch = bench.watch("one session")
            found, _ = probe_plan(setting, server, plan, bench.request.seed, 1, bench.folder.path, watch)
            bench.add(found, ".")
    misses = found.verdict["misses"]
    answered = misses["met"] + misses["late"]
    if as_json:
        say_json(bench.record)
    else:
        say(terminal.check(bench.record, found, answered))
    sys.exit(bench.exit_code(0 if answered and not misses["early"] else 1))
