"""The quality probe in words and tables: answers by age, what each policy costs, and whether to believe it."""

from __future__ import annotations

import re
from typing import Any

from metrobench.quality.analysis import BASE, LATE
from metrobench.quality.arms import RENDERED
from metrobench.quality.checks import BROKEN
from metrobench.records import Record
from metrobench.report.layout import WIDTH, hang, wrap

KIND = "quality"
LATE_AGES = f"{LATE:g}+ W"
"""Heading of the ages that decide."""


def heading(record: Record) -> str:
    """What is asked, in two or three lines."""
    setting = record.setting
    sampled = "greedy" if not setting["temperature"] else f"temperature {setting['temperature']:g}"
    parts = (
        record.profile["name"],
        setting["kv"],
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
    lines = ["", *_columns([headings(record), *rows(record)]), ""]
    for name, words in costs(record):
        lines += hang(f"{name}  ", words)
    if read := texts(record):
        lines += ["", *_columns([("nats a token of the text", *(f"{age} W" for age in text_ages(record))), *read])]
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
        broken = [check["name"] for check in result["checks"] if check["state"] == BROKEN]
        return f"Inconclusive: what must hold does not ({'; '.join(broken)})."
    if result["claims"]:
        return f"{'; '.join(_capital(claim) for claim in result['claims'])}."
    verdicts = [
        f"{each['name']} {each['verdict']}"
        for each in result["findings"]
        if each["verdict"] != BASE and each["arm"]["condition"] != RENDERED
    ]
    return f"{_capital('; '.join(verdicts) or 'nothing bounded was asked')}."


def beside(record: Record) -> str:
    """What the sentence rests on."""
    setting = record.setting
    return " · ".join(
        (
            record.profile["name"],
            setting["kv"],
            f"{setting['sessions']} sessions of {setting['questions']} questions",
            f"ages in W = {setting['window']} tokens",
            f"{record.wall_seconds:.0f} s",
        )
    )


def headings(record: Record) -> tuple[str, ...]:
    """Of the table of accuracy."""
    return ("answers right", *(f"{age} W" for age in ages(record)), LATE_AGES, "NLL loss")


def ages(record: Record) -> list[str]:
    """The bands of age that any arm reached, in order."""
    return list(dict.fromkeys(band["age"] for each in found(record)["findings"] for band in each["bands"]))


def rows(record: Record) -> list[tuple[str, ...]]:
    """One line an arm: accuracy in each band, late with its interval, and the late loss of likelihood."""
    lines = []
    for each in found(record)["findings"]:
        by_age = {band["age"]: band["accuracy"] for band in each["bands"]}
        cells = [_share(by_age.get(age)) for age in ages(record)]
        lines.append((each["name"], *cells, interval(each["late"]), _nats(each["nll_loss"])))
    return lines


def costs(record: Record) -> list[tuple[str, str]]:
    """What each policy costs, a name and a sentence each."""
    lines = []
    for each in found(record)["findings"]:
        loss, onset = each["loss"], each["onset"]
        if each["verdict"] == BASE or loss is None:
            continue
        words = f"{each['verdict']}: {-loss['value'] * 100:+.0f} points against unbounded"
        words += f" [{-loss['upper'] * 100:+.0f}, {-loss['lower'] * 100:+.0f}]"
        if onset is not None:
            words += f", from {onset['value']:.0f} tokens on [{onset['lower']:.0f}, {onset['upper']:.0f}]"
        lines.append((each["name"], words))
    return lines


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


def interval(value: dict[str, Any] | None) -> str:
    """`86 % [80, 92]`, or a dash."""
    if value is None:
        return "-"
    return f"{value['value'] * 100:.0f} % [{value['lower'] * 100:.0f}, {value['upper'] * 100:.0f}]"


def _share(value: dict[str, Any] | None) -> str:
    return "-" if value is None else f"{value['value'] * 100:.0f} %"


def _nats(value: dict[str, Any] | None) -> str:
    if value is None:
        return "-"
    ends = (re.sub(r"^(-?)0\.", r"\1.", f"{value[end]:.2f}") for end in ("lower", "upper"))
    return f"{value['value']:+.2f} [{', '.join(ends)}]"


def _columns(lines: list[tuple[str, ...]]) -> list[str]:
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
