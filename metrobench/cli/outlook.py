"""Before a measuring command begins: how long it will take, and whether something would end it half-way."""

from __future__ import annotations

import math
import shutil
from typing import Any

import msgspec
from msgspec import Struct

from metrobench.admission.timetable import Timetable
from metrobench.cli import consent
from metrobench.cli.bench import Bench
from metrobench.doctor.disk import existing
from metrobench.errors import UnreachableError, UsageError
from metrobench.guess import RAMP_SECONDS, RAMP_START, SECONDS
from metrobench.load.files import allow_files
from metrobench.measure.plan import Plan
from metrobench.probe import Setting, room_needed
from metrobench.report import ramp_table, terminal
from metrobench.report.layout import hang
from metrobench.search.duration import RunCount, RunTime, count_runs
from metrobench.search.mscs import Effort
from metrobench.units import memory, seconds

PRELOAD = 10.0
"""Seconds in which vLLM is loaded, once a command."""
STANDIN_START = 2.0
"""Seconds from the launch of a stand-in to open sessions (seen: 1.2 to 1.9)."""
MODEL_START = 60.0
"""The same of a model's own shape: a guess, until the first is seen."""
FILL = 0.06
"""Seconds to fill one session of a stand-in (seen on one core: 0.05 to 0.07)."""
CONNECT = 1.0
"""Seconds to connect to an endpoint, and of the quiet before."""
RESTART = 30.0
"""Seconds of --restart-cmd and --health: a guess, until the first is seen."""
SHORTER = {"ramp": "offer fewer sessions, faster or with a shorter --hold"}
"""How else a command fits into --max-time."""
ROUND = 5.0
"""Seconds to which an estimate above a minute is told."""


class Outlook(Struct, frozen=True):
    """What a command would do. Times in seconds."""

    heading: str
    """What is measured, as the command itself would say first."""
    command: str
    profile: str
    kv: str
    server: str
    """In words."""
    endpoint: str | None
    restart_cmd: str | None
    consent: str
    """Whether the server's owner must agree, in words."""
    budget: float
    most_sessions: int
    """Never more than these."""
    about_sessions: int
    """Sessions that the times hold for."""
    sessions: str
    """In words."""
    cut: float
    """Streamed and not judged, at the start of every session."""
    span: float
    """T: measured in each run."""
    run_seconds: float
    """One run from the launch of its server to its end."""
    takes: str
    """What that time goes to, in words."""
    before_seconds: float
    """Loading and the first guess, before the first run."""
    runs: RunCount
    few_seconds: float
    """The whole command with `runs.few`."""
    many_seconds: float
    """With `runs.many`."""
    most_seconds: float
    """With `runs.most`, or --max-time."""
    max_time: float | None
    folder: str
    """Where the run folder would be made, DATE standing for the date."""
    disk_bytes: int
    """What one run may need on disk at a time."""


def run_time(bench: Bench) -> RunTime:
    """What a run takes besides its streaming, as far as it is known before the first."""
    if bench.request.endpoint is not None:
        return RunTime(CONNECT if bench.restart is None else RESTART, 0.0)
    return RunTime(STANDIN_START if bench.stand_in else MODEL_START, FILL if bench.fills else 0.0)


def before_runs(bench: Bench, guess: int | None, most: int) -> float:
    """Seconds before the first run of a search: loading, and the first guess where there is none."""
    if bench.request.endpoint is not None:
        rungs = max(0, math.ceil(math.log2(most / RAMP_START))) + 1
        return 0.0 if guess else rungs * (RAMP_SECONDS + bench.budget + CONNECT)
    time = run_time(bench)
    return PRELOAD + (0.0 if guess else time.start + time.fill * min(most, 200) + sum(SECONDS))


def search_outlook(
    bench: Bench, setting: Setting, effort: Effort, most: int, guess: int | None, max_time: float | None
) -> Outlook:
    """A capacity search."""
    about = guess or min(most, ABOUT)
    runs = count_runs(effort, guess, most)
    first = "starts near --guess" if guess else "first guess by a closed loop"
    if bench.request.endpoint is not None and not guess:
        first = "first guess by short runs of doubling size"
    start = f"{first} {guess}" if guess else first
    words = f"at most {most} (--max-sessions), {start}"
    disk = room_needed(setting, setting.plan(most))
    before = before_runs(bench, guess, most)
    return _outlook(bench, setting.plan(about), run_time(bench), runs, most, words, before, max_time, disk)


def run_outlook(bench: Bench, setting: Setting, sessions: int, max_time: float | None) -> Outlook:
    """One run."""
    plan, before = setting.plan(sessions), _preload(bench)
    disk = room_needed(setting, plan)
    return _outlook(bench, plan, run_time(bench), RunCount(1, 1, 1), sessions, str(sessions), before, max_time, disk)


def ramp_outlook(bench: Bench, setting: Setting, offered: Timetable, max_time: float | None) -> Outlook:
    """An open system."""
    plan = open_plan(setting, offered)
    count, peak = len(offered), offered.peak(plan.unit)
    words = f"{count} come; at most {peak} at once, were all admitted"
    once, start = RunCount(1, 1, 1), RunTime(run_time(bench).start, 0.0)
    disk = room_needed(setting, setting.short_plan(max(offered.frames), count))
    found = _outlook(bench, plan, start, once, count, words, _preload(bench), max_time, disk)
    takes = f"{seconds(round(plan.seconds))} from the first arrival to the last deadline, the rest is the start"
    return msgspec.structs.replace(found, heading=ramp_table.heading(bench.record), takes=takes)


def open_plan(setting: Setting, offered: Timetable) -> Plan:
    """The plan of a closed run that takes as long as the timetable does."""
    unit = setting.stream.unit
    return setting.short_plan(math.ceil(float(offered.ends(unit).max()) / unit), len(offered))


def _preload(bench: Bench) -> float:
    return PRELOAD if bench.request.endpoint is None else 0.0


def _outlook(
    bench: Bench,
    plan: Plan,
    time: RunTime,
    runs: RunCount,
    most: int,
    words: str,
    before: float,
    max_time: float | None,
    disk_bytes: int,
) -> Outlook:
    each = time.seconds(plan)
    takes = f"{seconds(plan.span)} measured, {seconds(plan.cut_frames * plan.unit)} cut, the rest start, filling"
    few, many, longest = (before + count * each for count in (runs.few, runs.many, runs.most))
    cap = math.inf if max_time is None else max_time
    return Outlook(
        heading=terminal.heading(bench.record, plan.span, fills=bench.fills),
        command=bench.kind,
        profile=bench.profile.name,
        kv=str(bench.policy),
        server=_server(bench),
        endpoint=bench.request.endpoint,
        restart_cmd=bench.request.restart_cmd,
        consent=_consent(bench),
        budget=bench.budget,
        most_sessions=most,
        about_sessions=plan.sessions,
        sessions=words,
        cut=plan.cut_frames * plan.unit,
        span=plan.span,
        run_seconds=each,
        takes=f"{takes} and the last deadline",
        before_seconds=before,
        runs=runs,
        few_seconds=min(few, cap),
        many_seconds=min(many, cap),
        most_seconds=min(longest, cap),
        max_time=max_time,
        folder=str(bench.out / f"DATE-{bench.name}"),
        disk_bytes=disk_bytes,
    )


ABOUT = 100
"""Sessions for which the time of a search is told that may end anywhere."""


def _server(bench: Bench) -> str:
    if bench.request.endpoint is None:
        what = "a stand-in" if bench.stand_in else bench.weights
        return f"embedded worker ({what}), fresh for each run; vLLM is loaded once, about {seconds(PRELOAD)}"
    if bench.restart is not None:
        return f"{bench.request.endpoint}, restarted before each run"
    return f"{bench.request.endpoint}, the same for all runs"


def _consent(bench: Bench) -> str:
    if bench.request.endpoint is None:
        return "not needed: everything runs on this machine"
    try:
        if consent.is_loopback(bench.request.endpoint):
            return "not needed: the address is this machine's own"
    except UnreachableError as error:
        return error.message
    return "given by --yes" if bench.request.yes else "will be asked for: the address is not this machine's (or --yes)"


def text(outlook: Outlook) -> str:
    """For people, 80 columns wide."""
    runs, about = outlook.runs, _about(outlook.run_seconds)
    each = f"about {about} at {outlook.about_sessions} sessions: {outlook.takes}"
    count, whole = "1", f"about {_about(outlook.few_seconds)}"
    if runs.most > 1:
        count = f"{runs.few} where the guess is right, {runs.many} where it is off by 2; more where runs contradict"
        count += f" each other, never more than {runs.most}"
        whole = f"about {_about(outlook.few_seconds)} to {_about(outlook.many_seconds)}"
        whole += f", {_about(outlook.most_seconds)} with all {runs.most}" if outlook.max_time is None else ""
    if outlook.max_time is not None:
        whole += f"; --max-time {seconds(outlook.max_time)} ends it"
    pairs = [
        ("server", outlook.server),
        ("consent", outlook.consent),
        ("sessions", outlook.sessions),
        ("each run", each),
        ("runs", count),
        ("in all", whole),
        ("folder", f"{outlook.folder}, up to {memory(outlook.disk_bytes)} on disk at a time"),
    ]
    lines = ["dry run: nothing was started, nothing was written", outlook.heading]
    for name, words in pairs:
        lines += hang(f"  {name:<10}", words)
    return "\n".join(lines)


def data(outlook: Outlook) -> dict[str, Any]:
    """For `--json`."""
    found: dict[str, Any] = msgspec.to_builtins(outlook)
    return {"dry_run": True, **found}


def check_machine(bench: Bench, outlook: Outlook) -> None:
    """What would end a run, seen before anything is loaded. Raises UsageError."""
    allow_files(outlook.most_sessions)
    folder, needed = existing(bench.out), outlook.disk_bytes
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # the folder itself is judged when it is made
    if free < needed:
        raise UsageError(
            f"{memory(free)} are free in {folder}, and a run of {outlook.most_sessions} sessions may need"
            f" {memory(needed)}",
            "free some space, or choose another folder with --out",
        )


def check_fits(outlook: Outlook) -> None:
    """Raises UsageError where not even one run fits into --max-time."""
    needed = outlook.before_seconds + outlook.run_seconds
    if outlook.max_time is not None and needed > outlook.max_time:
        raise UsageError(
            f"--max-time {seconds(outlook.max_time)} is too short: one run of {outlook.about_sessions} sessions takes"
            f" about {_about(needed)} with all that comes before it",
            "allow more time, or " + SHORTER.get(outlook.command, "measure for a shorter --duration"),
        )


def tell_raised(bench: Bench, typed: str | None, asked: float | None, plan: Plan) -> None:
    """Say it where a run measures longer than was asked for."""
    if typed is not None and asked is not None and plan.span >= asked + plan.unit:
        bench.live.line(f"--duration {typed} raised to {seconds(plan.span)}, the least that may be judged")


def _about(length: float) -> str:
    """An estimate, no more exact than it is."""
    return seconds(round(length) if length < 60.0 else ROUND * round(length / ROUND))
