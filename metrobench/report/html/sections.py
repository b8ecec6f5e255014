"""The parts of a page about one record, in the order in which they are read."""

from __future__ import annotations

import shlex
from typing import Any

from metrobench.endpoints.base import FrameClass
from metrobench.measure.sessions import SessionRow
from metrobench.records import ProbeRecord, Record
from metrobench.report import capacity_table, collapse_table, forecast, quality_table, sentence, terminal, trust
from metrobench.report.html import elements, figures
from metrobench.report.view import Closeup, View
from metrobench.units import percent, rate, seconds

MOST_RUNS = 500
"""Most rows of the table of all runs."""
MOST_WORDS = 50
"""Most different words of the server that are shown, each cut to WORD_LENGTH."""
WORD_LENGTH = 300


def stand_in(record: Record) -> str:
    """What every reader of a stand-in's numbers must know."""
    if not record.stand_in:
        return ""
    return elements.paragraph(
        f"Stand-in: a small transformer ran in the place of {record.profile['name']}, with its budget, token rates and"
        " window. This is this machine's capacity, not the model's.",
        "banner",
    )


def verdict(view: View) -> str:
    """The answer, and what must be known with it."""
    record = view.stored.record
    result = record.result or {}
    parts = [
        elements.paragraph(f"metrobench {record.kind} · {_day(record.created)}", "kicker"),
        elements.headline(sentence.verdict(record)),
        elements.paragraph(sentence.beside(record)),
        stand_in(record),
    ]
    if record.status != "complete":
        words = (
            "a command is still measuring into this folder" if view.stored.live else record.error or "partial record"
        )
        parts.append(elements.paragraph(f"{record.status}: {words}", "banner"))
    if result.get("limited_by"):
        parts.append(elements.paragraph(f"Limited by {result['limited_by']['limit']}: {result['limited_by']['why']}."))
    if result.get("arithmetic"):
        parts.append(elements.paragraph(f"{result['arithmetic']}."))
    return "".join(parts)


def collapses(drawn: figures.Figures, view: View) -> str:
    """How often and when the runs of a batch collapsed, and what else they say."""
    record = view.stored.record
    return elements.section(
        "Collapses",
        elements.table("One line a policy", collapse_table.HEADINGS, collapse_table.rows(record)),
        elements.items(collapse_table.remarks(record)),
        figures.of_trials(drawn, record, view.closeups),
    )


def trusted(view: View) -> str:
    """Every check of the instrument, the warnings, and whether this version judges the same."""
    record = view.stored.record
    checks = [
        (check.what, check.seen, check.allowed, (check.state, _STATES.get(check.state, "note")))
        for check in trust.checks(record)
    ]
    warnings = elements.items(warning.advice for warning in record.warnings)
    return elements.section(
        "Can it be trusted?",
        elements.table(
            "The worst of the runs that count",
            ("check", "seen", "allowed", "state"),
            checks,
            frozenset(range(4)),
        ),
        elements.subheading("Read with care") + warnings if warnings else elements.paragraph("No warning."),
        _judged_again(view),
        elements.items(f"Not shown: {complaint}" for complaint in view.stored.complaints),
    )


def warnings(view: View) -> str:
    """What is to be read with care, where there are no checks of single runs."""
    record = view.stored.record
    return elements.section(
        "Read with care",
        elements.items(warning.advice for warning in record.warnings),
        elements.items(f"Not shown: {complaint}" for complaint in view.stored.complaints),
    )


def runs_by_sessions(record: Record) -> str:
    """The table of a search."""
    rows = [capacity_table.cells(row) for row in capacity_table.rows(record)]
    return elements.table("All runs that count, by number of sessions", capacity_table.HEADINGS, rows, frozenset({8}))


_RUN = ("run", "sessions", "outcome", "measured", "took", "missed", "p50", "p99")
_CPU = ("engine", "front", "client", "others")


def each_run(record: Record) -> str:
    """One line a run, and below it why it did not pass."""
    shown = record.probes[:MOST_RUNS]
    more = len(record.probes) - len(shown)
    return elements.section(
        "Each run",
        elements.table(
            "In the order they were made; CPU is a mean in parts of one core",
            (*_RUN, *(trust.NAMES[name] for name in _CPU)),
            [_run(probe) for probe in shown],
            frozenset({2}),
            ["; ".join(probe.reasons) for probe in shown],
        ),
        elements.paragraph(f"and {more} more: metrobench report --format csv") if more > 0 else "",
    )


def closeup(drawn: figures.Figures, run: Closeup, alone: bool, whole: bool) -> str:
    """One run over time, and its worst sessions."""
    probe = run.probe
    why = f", {run.why}" if run.why else ""
    heading = "Over time" if alone else f"At {probe.sessions} sessions: run {probe.index}, {probe.outcome}{why}"
    return elements.section(
        heading,
        elements.paragraph("; ".join(probe.reasons)),
        elements.items(f"Forecast {words}" for words in forecast.noted(probe.forecasts)),
        elements.paragraph(f"Median latency by age of the sessions: {terminal.by_age(probe.verdict['drift'])}"),
        figures.of_run(drawn, run, whole=whole),
        elements.subheading("Worst sessions") if run.worst else "",
        _sessions(run.worst),
    )


def _sessions(worst: list[SessionRow]) -> str:
    """Without a column that would be empty: a short run has no p99 of one session."""
    some = [row.p99 is not None for row in worst]
    headings = ["session", "missed", *(["p99"] if any(some) else []), "slowest", "longest gap", "end"]
    rows = [
        (
            str(row.session),
            f"{row.missed} of {row.due}",
            *([_time(row.p99)] if any(some) else []),
            _time(row.slowest),
            _time(row.longest_gap),
            _end(row),
        )
        for row in worst
    ]
    caption = "Of the measured span; the longest time without an answer is over the whole run"
    return elements.table(caption, headings, rows, frozenset({len(headings) - 1}))


def close_reasons(record: Record) -> str:
    """The server's own words about sessions that it refused or closed."""
    words = sorted({reason for probe in record.probes for reason in probe.close_reasons})
    shown = [word if len(word) <= WORD_LENGTH else f"{word[:WORD_LENGTH]} …" for word in words[:MOST_WORDS]]
    if len(words) > MOST_WORDS:
        shown.append(f"and {len(words) - MOST_WORDS} more")
    return elements.section("What the server said when it closed", elements.items(shown))


def setting(record: Record) -> str:
    """Everything that decided the numbers, and how to make them again."""
    machine = record.environment
    versions = ", ".join(f"{name} {version}" for name, version in sorted(machine.versions.items()))
    return elements.section(
        "Setting and environment",
        elements.pairs("What was asked", [*_asked(record), ("started", record.created)]),
        elements.pairs(
            "The machine that measured",
            [
                ("processor", f"{machine.cpu}, {machine.cores} cores for this program"),
                ("memory", f"{machine.memory_bytes / 2**30:.0f} GiB"),
                ("load average at the start", "-" if machine.load_average is None else f"{machine.load_average:g}"),
                ("GPUs", ", ".join(machine.gpus) or "none"),
                ("system", machine.system),
                ("versions", versions),
            ],
        ),
        elements.subheading("To measure it again"),
        elements.code(shlex.join(record.command)),
    )


def _asked(record: Record) -> list[tuple[str, str]]:
    setting: dict[str, Any] = record.setting
    if record.kind == quality_table.KIND:
        clips = f"{len(setting['clips'])} clips" if setting.get("clips") else None
        asked = {"model": record.profile["name"], **setting, "clips": clips, "seed": record.seed}
        return [(name, str(value)) for name, value in asked.items() if value not in (None, [])]
    counts = sentence.noun(setting)
    rule = f"at most {rate(setting['q'])} of {counts}s later than the budget"
    known = {
        "model": record.profile["name"] + (" (a stand-in ran)" if record.stand_in else ""),
        f"{counts} budget": seconds(setting["budget"]),
        "objective": sentence.objective(setting) or rule,
        "KV policy": setting["kv"],
        "endpoint": setting["endpoint"] or "the embedded worker",
        "protocol": setting.get("protocol"),
        "protocol class": FrameClass(setting["frame_class"]).title if setting.get("frame_class") else None,
        "weights": _WEIGHTS.get(setting.get("weights") or "", setting.get("weights")),
        "KV pool": f"{setting['pool_tokens']} tokens" if setting.get("pool_tokens") else "as the reference GPU's",
        "measured time of a run": seconds(setting["span"])
        if setting.get("span")
        else "the shortest that may be judged",
        "effort": setting.get("effort"),
        "most sessions": setting.get("max_sessions"),
        "audio": f"{len(setting['clips'])} clips" if setting.get("clips") else None,
        "seed": record.seed,
    }
    shown = {
        "budget",
        "q",
        "slo",
        "kv",
        "endpoint",
        "protocol",
        "frame_class",
        "weights",
        "pool_tokens",
        "span",
        "effort",
    }
    shown |= {"clips", "max_sessions"}
    others = {name.replace("_", " "): value for name, value in setting.items() if name not in shown}
    return [(name, str(value)) for name, value in (known | others).items() if value is not None]


_WEIGHTS = {"standin": "a small transformer in the model's place", "dummy": "random, in the model's real shape"}


_STATES = {trust.OK: "ok state", trust.DOUBTFUL: "doubtful state", trust.BAD: "bad state"}


def _judged_again(view: View) -> str:
    if not view.judged:
        return ""
    if view.differences:
        head = elements.paragraph("This version of metrobench judges some of the stored facts differently:")
        return head + elements.items(view.differences)
    runs = "the run" if view.judged == 1 else f"all {view.judged} runs"
    return elements.paragraph(f"Judged again from the stored facts, {runs} came out the same.", "note")


def _run(probe: ProbeRecord) -> tuple[str, ...]:
    misses, latency = probe.verdict["misses"], probe.verdict["latency"]
    return (
        str(probe.index),
        str(probe.sessions),
        probe.outcome,
        seconds(probe.span_seconds),
        seconds(probe.wall_seconds),
        "-" if misses["rate"] is None else percent(misses["rate"]),
        _time(latency["p50"]),
        _time(latency["p99"]),
        *("-" if (share := probe.cpu_shares.get(name)) is None else percent(share, 0) for name in _CPU),
    )


def _end(row: SessionRow) -> str:
    if row.refused:
        return f"refused: {row.reason or 'no reason given'}"
    if row.closed is not None:
        return f"closed at {seconds(row.closed)}: {row.reason or 'no reason given'}"
    return "open to the end"


def _time(value: float | None) -> str:
    return "-" if value is None else seconds(value)


def _day(created: str) -> str:
    return created.replace("T", " ").replace("+00:00", " UTC")
