"""`metrobench quality` in writing: a run folder, its record, and the facts of every arm in it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from metrobench.cli.live import Interrupts, Live
from metrobench.cli.output import say, say_json
from metrobench.cli.recording import recording
from metrobench.environment import Environment, describe_machine, usable_cores
from metrobench.errors import UsageError
from metrobench.policy import UNBOUNDED, KvPolicy
from metrobench.quality import search
from metrobench.quality.analysis import ArmFacts, analyse
from metrobench.quality.arms import FREE, choose_policies
from metrobench.quality.questions import QUESTIONS
from metrobench.quality.run import Calibrated, Course, Setting, run, session_length
from metrobench.quality.weights import find, name_of
from metrobench.records import SCHEMA, Record, RunFolder, now, plain
from metrobench.report import quality_table
from metrobench.worker.launcher import need_vllm

FACTS = "answers.json"
"""In each arm's folder: everything it said."""
INCONCLUSIVE = 3


def written(
    *,
    kv: str,
    find_window: str | None,
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
) -> int:
    """The whole command; its exit code. Raises MetrobenchError."""
    machine = describe_machine()
    block = 16 if machine.gpus else 32
    widths = [] if find_window is None else search.parse_windows(find_window, block)
    policies, controls = ([KvPolicy(UNBOUNDED)], []) if widths else choose_policies(kv, block)
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
        widths=widths,
        sinks=block,
    )
    length = session_length(setting)
    if widths and widths[-1] > search.widest(length):
        raise UsageError(
            f"sessions of at most {length} tokens say nothing of a window of {widths[-1]}",
            "ask more --questions or for a longer --answer, or leave that window out",
        )
    record, folder, code = measured(setting, model, machine, out, live, None if as_json else say)
    if as_json:
        say_json(record)
    else:
        say(quality_table.text(record))
        say(f"report   {folder / 'index.html'}")
    return code


def measured(
    setting: Setting, model: str, machine: Environment, out: Path, live: Live, say: Callable[[str], object] | None
) -> tuple[Record, Path, int]:
    """Probe; the record, its folder and the exit code. Raises MetrobenchError, after the record is written."""
    record = _record(setting, model, machine)
    folder = RunFolder.create(out, f"quality-{name_of(model)}")
    interrupts = Interrupts()
    began = time.monotonic()
    arms: list[ArmFacts] = []

    def store(facts: ArmFacts) -> None:
        arms.append(facts)
        keep(folder, len(arms), facts.arm.name, facts)
        live.line(f"{facts.arm.name}: {len(facts.replies)} answers after {time.monotonic() - began:.0f} s")

    with recording(record, folder, live, interrupts, began):
        if say is not None:
            say(quality_table.heading(record))
        course = Course(store, live.status, lambda: interrupts.signum is not None)
        known = run(setting, course, folder.path / "engines.log")
        if arms and known is not None:
            _conclude(record, setting, arms, known)
    if interrupts.signum:
        return record, folder.path, 128 + interrupts.signum
    return record, folder.path, code_of(record)


def code_of(record: Record) -> int:
    """The exit code of a probe that came to its end."""
    return 0 if record.result is not None and record.result["quality"]["believed"] else INCONCLUSIVE


def keep(folder: RunFolder, place: int, name: str, facts: object) -> None:
    """Write all that an arm or a stage said, in a folder of its own."""
    own = folder.subfolder(f"{place:02d}-{re.sub(r'[^A-Za-z0-9.+-]+', '-', name)}")
    folder.write_text(str(own.relative_to(folder.path) / FACTS), msgspec.json.encode(facts).decode())


def _record(setting: Setting, model: str, machine: Environment) -> Record:
    policies = [str(policy) for policy in setting.policies]
    return Record(
        schema=SCHEMA,
        kind=quality_table.KIND,
        status="running",
        created=now(),
        command=["metrobench", *sys.argv[1:]],
        environment=machine,
        profile={"name": name_of(model)},
        setting={
            "kv": ",".join(policies),
            "controls": [str(policy) for policy in setting.controls],
            "find_window": list(setting.widths) or None,
            "weights": model,
            "endpoint": None,
            "block": setting.block,
            "window": setting.window,
            "sessions": setting.sessions,
            "questions": setting.questions,
            "answer": setting.answer,
            "temperature": setting.temperature,
            "text": bool(setting.text),
            "chat": setting.chat,
            "rendered": setting.rendered,
        },
        seed=setting.seed,
        stand_in=False,
    )


def _conclude(record: Record, setting: Setting, arms: list[ArmFacts], known: Calibrated) -> None:
    """The findings, arms in the order of --kv, controls and re-rendered turns last."""
    order = {str(policy): place for place, policy in enumerate([*setting.policies, *setting.controls])}
    arms.sort(key=lambda each: (each.arm.condition != FREE, each.arm.condition, order.get(each.arm.policy, 99)))
    found = analyse(arms, setting.window, setting.block, len(known.free), len(QUESTIONS), bool(setting.widths))
    record.result = {"quality": plain(found), "known": {"free": len(known.free), "chat": len(known.chat)}}
    if setting.widths:
        record.result["windows"] = plain(sorted(known.searches, key=lambda each: each.sinks))


def _read(path: Path) -> str:
    """A text of at least two words. Raises UsageError."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise UsageError(f"--text {path} cannot be read: {error.strerror}") from error
    if len(text.split()) < 2:
        raise UsageError(f"--text {path} holds no text")
    return text
