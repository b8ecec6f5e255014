"""The quality probe in words and tables: answers by age, what each policy costs, and whether to believe it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from metrobench.policy import UNBOUNDED
from metrobench.quality.analysis import BASE, KEEPS, LATE
from metrobench.quality.arms import FRESH, RENDERED
from metrobench.quality.bands import Estimate, share_words
from metrobench.quality.checks import BROKEN
from metrobench.quality.spoken.answer import VERDICTS, Reply
from metrobench.records import Record
from metrobench.report.layout import WIDTH, hang, wrap
from metrobench.units import seconds

KIND = "quality"
ASKED = ("asked in", "age", "right of those in time", *VERDICTS)
"""Headings of a spoken probe's table."""
TRIED = ("at its own ages", "right", "NLL loss", "answers")
"""Headings of `tried`."""
LATE_AGES = f"{LATE:g}+ W"
"""Heading of the ages that decide."""


def heading(record: Record) -> str:
    """What is asked, in two or three lines."""
    setting = record.setting
    if spoken(record):
        return "\n".join(wrap(_spoken_heading(record)))
    sampled = "greedy" if not setting["temperature"] else f"temperature {setting['temperature']:g}"
    parts = (
        record.profile["name"],
        _policies(record),
        f"{setting['sessions']} sessions of {setting['questions']} questions, {setting['answer']} tokens an answer",
        sampled,
        f"ages in W = {setting['window']} tokens",
    )
    lines = wrap(" · ".join(parts))
    if setting["controls"]:
        lines += wrap(f"added as controls: {', '.join(setting['controls'])}")
    return "\n".join(lines)


def text(record: Record) -> str:
    """The findings for a terminal, 80 columns wide."""
    if not found(record):
        return "nothing was measured"
    lines = ["", *columns([headings(record), *rows(record)]), ""]
    for name, words in costs(record):
        lines += hang(f"{name}  ", words)
    if read := texts(record):
        lines += ["", *columns([("nats a token of the text", *(f"{age} W" for age in text_ages(record))), *read])]
    if tried(record):
        lines += ["", *columns([TRIED, *tried(record)]), "", *wrap(smallest(record))]
    lines += ["", "believable?"]
    for name, state, seen in checks(record):
        lines += hang(f"  {state:<10}  ", f"{name}: {seen}")
    lines += ["", *wrap(sentence(record))]
    return "\n".join(lines)


def found(record: Record) -> dict[str, Any]:
    """The findings (quality.analysis.Quality as builtins); empty where there are none."""
    return dict((record.result or {}).get("quality") or {})


def sentence(record: Record) -> str:
    """The verdict."""
    result = found(record)
    if not result:
        return "Nothing was measured."
    if not result["believed"]:
        return f"Inconclusive: what must hold does not ({'; '.join(broken(record))})."
    if found_windows := smallest(record):
        return found_windows
    if result["claims"]:
        return f"{'; '.join(_capital(claim) for claim in result['claims'])}."
    verdicts = [
        f"{each['name']} {each['verdict']}"
        for each in result["findings"]
        if each["verdict"] != BASE and each["arm"]["condition"] != RENDERED
    ]
    return f"{_capital('; '.join(verdicts) or 'nothing bounded was asked')}."


def short(record: Record) -> str:
    """The verdict in a few words."""
    if broken(record):
        return "inconclusive"
    judged = [each for each in found(record)["findings"] if each["verdict"] != BASE]
    if spoken(record):
        return "; ".join(each["verdict"] for each in judged)
    policies = [each for each in judged if each["arm"]["condition"] != RENDERED and not each["arm"]["control"]]
    return f"{sum(each['verdict'] == KEEPS for each in policies)} of {len(policies)} keep answering"


def broken(record: Record) -> list[str]:
    """The conditions of belief that do not hold."""
    return [check["name"] for check in found(record).get("checks", ()) if check["state"] == BROKEN]


def beside(record: Record) -> str:
    """What the sentence rests on."""
    setting = record.setting
    if spoken(record):
        return f"{_spoken_heading(record)} · {record.wall_seconds:.0f} s"
    return " · ".join(
        (
            record.profile["name"],
            _policies(record),
            f"{setting['sessions']} sessions of {setting['questions']} questions",
            f"ages in W = {setting['window']} tokens",
            f"{record.wall_seconds:.0f} s",
        )
    )


def headings(record: Record) -> tuple[str, ...]:
    """Of the table of accuracy."""
    if spoken(record):
        return ASKED
    return ("answers right", *(f"{age} W" for age in ages(record)), LATE_AGES, "NLL loss")


def _points(share: float) -> str:
    """`+3` or `-12`; nought has no sign of its own."""
    return f"{round(share * 100) or 0:+d}"


def ages(record: Record) -> list[str]:
    """The bands of age that any arm reached, in order."""
    return list(dict.fromkeys(band["age"] for each in found(record)["findings"] for band in each["bands"]))


def rows(record: Record) -> list[tuple[str, ...]]:
    """One line an arm: accuracy in each band, late with its interval, and the late loss of likelihood; of a spoken
    probe one line an arm and band."""
    if spoken(record):
        return _asked(record)
    lines: list[tuple[str, ...]] = []
    for each in found(record)["findings"]:
        by_age = {band["age"]: band["accuracy"] for band in each["bands"]}
        cells = [_share(by_age.get(age)) for age in ages(record)]
        lines.append((each["name"], *cells, interval(each["late"]), nats(each["nll_loss"])))
    return lines


def costs(record: Record) -> list[tuple[str, str]]:
    """What each policy costs, a name and a sentence each."""
    lines = []
    for each in found(record)["findings"]:
        loss, onset = each["loss"], each["onset"]
        if each["verdict"] == BASE or loss is None:
            continue
        against = FRESH if spoken(record) else UNBOUNDED
        words = f"{each['verdict']}: {_points(-loss['value'])} points against {against}"
        words += f" [{_points(-loss['upper'])}, {_points(-loss['lower'])}]"
        if spoken(record):
            old = seconds(found(record)["window"])
            words += f"; from {old} of age on {interval(each['late'])} of the answers in time are right,"
            words += f" and {interval(each['in_time'])} of the questions are answered in time"
        if onset is not None:
            words += f", from {onset['value']:.0f} tokens on [{onset['lower']:.0f}, {onset['upper']:.0f}]"
        lines.append((each["name"], words))
    return lines


def tried(record: Record) -> list[tuple[str, ...]]:
    """Of a search, one line a window: what it costs at ages of twice its own width and more (TRIED)."""
    return [
        (each["policy"], interval(each["late"]), nats(each["nll_loss"]), each["answer"])
        for found in (record.result or {}).get("windows", ())
        for each in found["tried"]
    ]


def smallest(record: Record) -> str:
    """What the searches found, in a sentence."""
    parts = []
    for each in (record.result or {}).get("windows", ()):
        with_sinks = f"with {each['sinks']} sinks" if each["sinks"] else "alone"
        doubt = "" if each["sure"] else " (a narrower one may)"
        parts.append(
            f"{with_sinks}, {each['smallest']} is the smallest that costs no answers{doubt}"
            if each["smallest"]
            else f"{with_sinks}, no window that was tried is seen to cost no answers"
        )
    return f"{_capital('; '.join(parts))}." if parts else ""


def _asked(record: Record) -> list[tuple[str, ...]]:
    """One line an arm and band: what became of its questions (ASKED)."""
    lines: list[tuple[str, ...]] = []
    for each in found(record)["findings"]:
        for band in each["bands"]:
            became = band.get("asked")
            if became is not None:
                counts = (str(became[name]) for name in VERDICTS)
                lines.append((each["name"], band["age"], interval(band["accuracy"]), *counts))
    return lines


def spoken(record: Record) -> bool:
    """Whether the questions were asked aloud, at an endpoint."""
    return record.setting.get("endpoint") is not None


def spoken_setting(sessions: int, questions: int, duration: float, deadline: float, at_once: int) -> dict[str, Any]:
    """What the setting of a spoken probe adds to that of a run; times in seconds."""
    return {
        "kv": "endpoint",
        "controls": [],
        "window": 0,
        "sessions": sessions,
        "questions": questions,
        "answer": 0,
        "temperature": 0.0,
        "duration": duration,
        "deadline": deadline,
        "at_once": at_once,
    }


def verdicts(replies: Sequence[Reply]) -> str:
    """`30 right, 2 wrong, 0 none, 1 late`."""
    return ", ".join(f"{sum(reply.verdict == name for reply in replies)} {name}" for name in VERDICTS)


def checks(record: Record) -> list[tuple[str, str, str]]:
    """Each condition of belief: name, state, what was seen."""
    return [(check["name"], check["state"], check["seen"]) for check in found(record)["checks"]]


def text_ages(record: Record) -> list[str]:
    """The bands of position in which a text was read."""
    return list(dict.fromkeys(band["age"] for each in found(record)["findings"] for band in each.get("text", ())))


def texts(record: Record) -> list[tuple[str, ...]]:
    """One line an arm that read the user's text: its negative log-likelihood in each band."""
    lines: list[tuple[str, ...]] = []
    for each in found(record)["findings"]:
        if by_age := {band["age"]: f"{band['nll']:.2f}" for band in each.get("text", ())}:
            lines.append((each["name"], *(by_age.get(age, "-") for age in text_ages(record))))
    return lines


def symptoms(record: Record) -> list[tuple[str, ...]]:
    """One line an arm and band: repetition, hollow answers, first answers said again."""
    lines: list[tuple[str, ...]] = []
    for each in found(record)["findings"]:
        for band in each["bands"]:
            if band["accuracy"] is not None:
                repeated = "-" if band["repetition"] is None else f"{band['repetition'] * 100:.0f} %"
                count = str(band["accuracy"]["answers"])
                lines.append((each["name"], band["age"], count, repeated, str(band["hollow"]), str(band["first"])))
    return lines


def _policies(record: Record) -> str:
    widths = record.setting.get("find_window")
    return f"the smallest window of {', '.join(map(str, widths))}" if widths else str(record.setting["kv"])


def _spoken_heading(record: Record) -> str:
    setting = record.setting
    parts = (
        f"{setting['endpoint']} ({setting['protocol']})",
        f"{setting['questions']} spoken questions",
        f"{setting['sessions']} sessions of {seconds(setting['duration'])}",
        f"an answer is in time within {seconds(setting['deadline'])}",
    )
    return " · ".join(parts)


def interval(value: dict[str, Any] | None) -> str:
    """A share with its interval, or a dash."""
    return share_words(None if value is None else msgspec.convert(value, Estimate))


def _share(value: dict[str, Any] | None) -> str:
    return "-" if value is None else f"{value['value'] * 100:.0f} %"


def nats(value: dict[str, Any] | None) -> str:
    """A loss of likelihood with its interval, or a dash."""
    if value is None:
        return "-"
    ends = (re.sub(r"^(-?)0\.", r"\1.", f"{value[end]:.2f}") for end in ("lower", "upper"))
    return f"{value['value']:+.2f} [{', '.join(ends)}]"


def columns(lines: list[tuple[str, ...]]) -> list[str]:
    """A table whose first column is words, as narrow as it can be."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    between = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
    return [
        between.join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
