"""`metrobench quality --endpoint`: questions asked aloud, at known ages of long sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from metrobench.cli.bench import Bench
from metrobench.cli.output import say, say_json
from metrobench.cli.quality_run import code_of, keep
from metrobench.cli.request import Request
from metrobench.corpus.manifest import Clip
from metrobench.corpus.stream import ChunkTable, load_table
from metrobench.corpus.turns import utterance
from metrobench.endpoints.registry import PROTOCOLS, converses
from metrobench.errors import UnreachableError, UsageError
from metrobench.load.files import allow_files
from metrobench.load.spec import LoadSpec
from metrobench.probe import Setting as LoadSetting
from metrobench.quality.spoken.answer import Stage
from metrobench.quality.spoken.findings import analyse
from metrobench.quality.spoken.plan import Spoken, aliases_of, usable
from metrobench.quality.spoken.probe import BUDGET, Course, Setting, run, seconds_needed
from metrobench.quality.spoken.transcribe import Transcriber
from metrobench.records import plain
from metrobench.report import quality_table
from metrobench.restart import round_trip
from metrobench.units import CHUNK, parse_duration

LANGUAGE = "en"
MOST_QUESTIONS = 200
STAGES = 3


def spoken(
    *, sessions: int, duration: str, deadline: str, at_once: int, out: Path, as_json: bool, quiet: bool, **asked: Any
) -> int:
    """The whole command; its exit code. Raises MetrobenchError."""
    length = parse_duration(duration, name="--duration")
    patience = parse_duration(deadline, name="--deadline", low=0.05, high=300.0)
    asked["language"] = asked["language"] or LANGUAGE
    request = Request(budget=None, miss_rate=None, slo=None, kv=None, weights="auto", pool_tokens=None, **asked)
    bench = Bench(quality_table.KIND, request, out, quiet or as_json)
    need_answers(bench.protocol)
    clips = _questions(bench)
    at_once = min(at_once, max(sessions, len(clips)))
    load = bench.setting(span=None, stop_when_failed=False, extend_unresolved=False)
    setting = Setting(
        _spec(bench, load), bench.stream, _pool(clips, None), sessions, length, patience, at_once, request.seed
    )
    bench.record.setting |= quality_table.spoken_setting(sessions, len(clips), length, patience, at_once)
    if round_trip(setting.spec.url, looks=1) is None:
        raise UnreachableError(f"nothing answers at {setting.spec.url}", "check the address, and that the server is up")
    allow_files(at_once)
    bench.consent(at_once, seconds_needed(setting))
    with bench.recorded():
        if not as_json:
            say(quality_table.heading(bench.record))
        load = bench.with_audio(load)
        assert load.table is not None
        pool = _pool(clips, load_table(load.table))
        _run(bench, replace(setting, pool=pool, spec=replace(setting.spec, table=load.table)))
    if as_json:
        say_json(bench.record)
    else:
        say(quality_table.text(bench.record))
        say(f"report   {bench.folder.path / 'index.html'}")
    return bench.exit_code(code_of(bench.record))


def need_answers(protocol: str) -> None:
    """Raises UsageError for a protocol whose answers cannot be read."""
    if not converses(protocol):
        able = [name for name in PROTOCOLS if converses(name)]
        raise UsageError(f"--protocol {protocol} brings no answers to questions", f"these do: {', '.join(able)}")


def _questions(bench: Bench) -> list[Clip]:
    """The questions of the corpus, which becomes the audio of the run. Raises UsageError."""
    clips = usable(bench.audio.clips)[:MOST_QUESTIONS]
    if not clips:
        raise UsageError(
            f"corpus {bench.audio.pack.name} has no questions with answers in {bench.audio.language!r}",
            "the shipped corpus has some: leave --audio out, or --language en",
        )
    bench.audio = replace(bench.audio, clips=tuple(clips))
    return clips


def _pool(clips: Sequence[Clip], table: ChunkTable | None) -> tuple[Spoken, ...]:
    """The questions, where they stand in the table; without one, only as long as they are."""
    found = []
    spans = table.clips if table is not None else [(0, round(clip.seconds / CHUNK)) for clip in clips]
    for clip, span in zip(clips, spans, strict=True):
        heard = span if table is None else utterance(table, span, span[1])
        if heard is not None:
            found.append(Spoken(clip.transcript, aliases_of(clip), *heard))
    return tuple(found)


def _spec(bench: Bench, load: LoadSetting) -> LoadSpec:
    """What every stage has in common; the rest is filled in there."""
    assert bench.request.endpoint is not None
    return LoadSpec(
        protocol=bench.protocol,
        url=bench.request.endpoint,
        sessions=1,
        budget=BUDGET,
        unit=bench.stream.unit,
        first_ready=bench.stream.first_ready,
        seed=bench.request.seed,
        clips=load.clips,
        cut_frames=0,
        frames=1,
        max_frames=1,
        spool=Path(),
        sample_rate=bench.stream.sample_rate,
        access=bench.access,
    )


def _run(bench: Bench, setting: Setting) -> None:
    """The stages, each kept as soon as it is over, and the findings once there are all."""
    stages: list[Stage] = []

    def store(stage: Stage) -> None:
        stages.append(stage)
        keep(bench.folder, len(stages), stage.name, stage)
        bench.live.line(f"{stage.name}: {quality_table.verdicts(stage.replies)}")

    course = Course(
        store, bench.live.status, lambda: bench.stopped, bench.folder.path / "wire", Transcriber(bench.audio.language)
    )
    run(setting, course)
    if len(stages) == STAGES:
        bench.record.result = {"quality": plain(analyse(stages[0], stages[1], stages[2], setting.deadline))}
