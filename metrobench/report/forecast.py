"""Forecasts of collapse as plain text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence

from metrobench.predict.fit import Fit
from metrobench.predict.limits import Limit, Outcome, Prediction, earliest
from metrobench.predict.review import Made, Review, verdict
from metrobench.records import Forecast
from metrobench.report.layout import hang, wrap
from metrobench.units import percent, seconds

LONG = 2 * 86_400.0
"""Seconds from which a time is given in days."""


def when(value: float | None) -> str:
    """A time ahead: `now`, `3 min 12 s`, `4 days`."""
    if value is None:
        return "never"
    if value <= 0.0:
        return "now"
    return f"{value / 86_400.0:,.0f} days" if value > LONG else seconds(round(value, 1) if value < 60.0 else value)


def prediction(found: Prediction, title: str) -> str:
    """What the arithmetic says: the four limits, the earliest, what was assumed, what would help."""
    lines = [*wrap(title), "", *limits(found.limits), "", *answer(found.limits)]
    if found.chance is not None:
        chance = found.chance
        lines += wrap(f"the KV pool is full before {seconds(chance.duration)}: probability {probability(chance.value)}")
    lines.append("")
    for number, text in enumerate(found.helps):
        lines += hang("helps     " if number == 0 else "          ", text)
    for number, text in enumerate(found.assumptions):
        lines += hang("assumes   " if number == 0 else "          ", text)
    return "\n".join(lines)


def limits(found: list[Limit]) -> list[str]:
    """A table of limits."""
    cells = [(limit.name, _time(limit), _why(limit)) for limit in found]
    name, time = (max(len(cell[column]) for cell in cells) for column in (0, 1))
    lines = []
    for cell in cells:
        lines += hang(f"  {cell[0]:<{name}}  {cell[1]:>{time}}  ", cell[2])
    return lines


def answer(found: list[Limit]) -> list[str]:
    """The earliest limit in one sentence."""
    first = earliest(found)
    unknown = [limit.name for limit in found if limit.outcome is Outcome.UNKNOWN]
    beside = f" ({', '.join(unknown)}: not known)" if unknown else ""
    if first is None:
        return wrap(f"collapse: never, by the limits that are known{beside}")
    may = "possible from " if first.outcome is Outcome.POSSIBLE else ""
    return wrap(f"collapse: {may}{when(first.time)}{_ends(first.lower, first.upper)}, by the {first.name}{beside}")


def probability(value: float) -> str:
    """A probability for people, never said to be certain."""
    if value < 0.001:
        return "under 0.1 %"
    return "over 99.9 %" if value > 0.999 else percent(value)


def review(found: Review, title: str) -> str:
    """The forecasts of a finished run against what happened."""
    headings = ("made at", "filled", "collapse at", "95 % interval", "error", "of the rest", "line")
    rows = [headings, *(_made(made, found) for made in found.made), _arithmetic(found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    lines = [*wrap(title), ""]
    for row in rows:
        lines.append("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for made in found.made:
        if made.fit is None:
            lines += hang("  ", f"{_point(made)}: {made.refused}")
        elif made.fit.why:
            lines += hang("  ", f"{_point(made)}: {made.fit.why}")
    lines += ["", *_observed(found), *hang("arithmetic ", found.arithmetic_why), "", *limits(found.limits)]
    return "\n".join(lines)


def noted(found: Sequence[Forecast]) -> list[str]:
    """The forecasts that a run's record keeps, one sentence each."""
    return [_noted(each) for each in found]


def _noted(found: Forecast) -> str:
    point = "at the end" if found.fill is None else f"at {percent(found.fill, 0)} full"
    if found.outcome == "never":
        return f"never full at this load: {found.why}"
    if found.outcome == "none":
        return f"{point}: {found.why}"
    text = f"{point} ({when(found.made_at)}): full at {when(found.time)}{_ends(found.lower, found.upper)}"
    if found.of_onset is not None:
        text += f", {percent(found.of_onset)} of the onset off"
    if found.of_rest is not None:
        text += f", {percent(found.of_rest)} of the time then left"
    return text


def countdown(fit: Fit, now: float, sessions: float | None) -> str:
    """One forecast of a server that runs, in one line."""
    words = [f"kv {percent(fit.used)}"]
    if sessions is not None:
        words.append(f"{sessions:.0f} sessions")
    if fit.time is None:
        words.append(f"never full at this load: {fit.why}")
    elif fit.time <= now:
        words.append("full now")
    else:
        ends = _ends(_ahead(fit.lower, now), _ahead(fit.upper, now))
        words.append(f"full in {when(fit.time - now)}{ends}")
    return " · ".join(words)


def _ahead(end: float | None, now: float) -> float | None:
    return None if end is None else max(0.0, end - now)


def _time(limit: Limit) -> str:
    if limit.outcome is Outcome.DATE:
        return when(limit.time)
    return f"from {when(limit.time)}" if limit.outcome is Outcome.POSSIBLE else limit.outcome.value


def _why(limit: Limit) -> str:
    ends = _ends(limit.lower, limit.upper).strip()
    return f"{limit.why} {ends}".strip()


def _ends(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None or when(lower) == when(upper):
        return ""
    return f" ({when(lower)} to {when(upper)})"


def _point(made: Made) -> str:
    return "at the end" if made.fill is None else f"at {percent(made.fill, 0)}"


def _made(made: Made, found: Review) -> tuple[str, ...]:
    fit = made.fit
    if fit is None:
        return (_point(made), "", "-", "", "", "", "")
    ends = f"{when(fit.lower)} to {when(fit.upper)}" if fit.lower is not None and fit.time != fit.lower else ""
    rest = made.score.of_rest if made.score is not None else None
    return (
        when(fit.made_at),
        percent(fit.used, 0),
        when(fit.time),
        ends,
        verdict(made, found),
        "" if rest is None else percent(rest),
        "" if fit.straight is None else when(fit.straight),
    )


def _arithmetic(found: Review) -> tuple[str, ...]:
    score = found.arithmetic_score
    told = found.arithmetic is not None or found.arithmetic_why.startswith("never")
    date = when(found.arithmetic) if told else "-"
    return ("arithmetic", "", date, "", "" if score is None else percent(score.of_onset), "", "")


def _observed(found: Review) -> list[str]:
    if found.observed is None or found.onset is None:
        return hang("observed   ", f"no collapse until {when(found.end)} ({found.kind})")
    low, high = found.onset
    text = f"{found.kind} at {seconds(found.observed)}, between {low:.2f} s and {high:.2f} s"
    return hang("observed   ", text)
