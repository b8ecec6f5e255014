"""`predict-collapse --metrics`: looks at a metrics page again and again, and says how long there is left."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from metrobench.cli.live import Interrupts, Live
from metrobench.cli.output import say
from metrobench.errors import NotValidError, UnreachableError
from metrobench.predict.fit import Fit
from metrobench.predict.limits import ENCODER, HOST, KV, POSITIONS, Limit, Outcome
from metrobench.predict.pages import read_page
from metrobench.predict.scrape import Scraper
from metrobench.predict.watch import Watched
from metrobench.report import forecast
from metrobench.report.layout import wrap
from metrobench.units import parse_duration, percent, seconds

EVERY = "5s"
SHORTEST = 0.2
"""Seconds between two looks at least: a page costs its server some milliseconds."""
MOST_LOOKS = 24
"""Looks that a single answer may take."""
CERTAIN = 0.25
"""Half width of the interval, in parts of the time left, at which a single answer is good enough."""
MOST_SILENT = 3
"""Looks in a row that may fail before a server counts as gone."""


def follow(url: str, watch: bool, every: str | None, fail_below: str | None, as_json: bool, quiet: bool) -> int:
    """The exit code: 0 answered, 1 nearer than `fail_below`. Raises UnreachableError, NotValidError, UsageError."""
    pause = parse_duration(every or EVERY, name="--every", low=SHORTEST, high=3600.0)
    limit = None if fail_below is None else parse_duration(fail_below, name="--fail-below")
    live = Live(quiet or (as_json and not watch))
    with Scraper(url) as scraper, Interrupts() as interrupts, interrupts.at_once():
        try:
            return _follow(_Page(scraper, pause), live, watch, limit, as_json)
        finally:
            live.clear()


class _Page:
    """A metrics page, looked at every so often."""

    def __init__(self, scraper: Scraper, pause: float) -> None:
        self._scraper = scraper
        self._pause = pause
        self._begin = time.monotonic()
        self._due = self._begin
        self._silent = 0
        self.watched = Watched()
        self.looks = 0

    @property
    def now(self) -> float:
        """Seconds since the first look."""
        return time.monotonic() - self._begin

    def look(self) -> bool:
        """Wait for the next look and take it; False where the server was silent this once."""
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = max(self._due + self._pause, time.monotonic())
        try:
            text = self._scraper.read()
        except UnreachableError:
            self._silent += 1
            if not self.looks or self._silent >= MOST_SILENT:
                raise
            return False
        self._silent = 0
        self.looks += 1
        self.watched.take(self.now, read_page(text))
        return True


def _follow(page: _Page, live: Live, watch: bool, limit: float | None, as_json: bool) -> int:
    while True:
        if not page.look():
            live.status("no answer this time")
            continue
        now = page.now
        try:
            _, engine, fit = page.watched.first()
        except NotValidError as error:
            live.status(f"kv {percent(page.watched.fullest().last.used)} · {error.message}")
            if as_json and watch and not say(_line(now, None, error.message)):
                return 0
            if not watch and page.looks >= MOST_LOOKS:
                raise
            continue
        text = forecast.countdown(fit, now, engine.last.sessions)
        live.status(text)
        if as_json and watch and not say(_line(now, fit, text)):
            return 0
        below = limit is not None and fit.time is not None and fit.time - now < limit
        if below or (not watch and (_certain(fit, now) or page.looks >= MOST_LOOKS)):
            live.clear()
            _answer(fit, text, now, as_json and not watch)
            return int(below)


def _certain(fit: Fit, now: float) -> bool:
    if fit.time is None or fit.lower is None or fit.upper is None or fit.time <= now:
        return True
    return fit.upper - fit.lower <= 2.0 * CERTAIN * (fit.time - now)


def _answer(fit: Fit, text: str, now: float, as_json: bool) -> None:
    found = limits(fit, now)
    if as_json:
        data: dict[str, Any] = {"now": now, "fit": fit, "limits": found}
        say(msgspec.json.format(msgspec.json.encode(data), indent=1).decode())
        return
    rate = "" if fit.rate is None else f", fitted to {fit.samples} samples over {seconds(now - fit.since)}"
    say("\n".join([*wrap(f"{text}{rate}"), "", *forecast.limits(found), "", *forecast.answer(found)]))


def limits(fit: Fit, now: float) -> list[Limit]:
    """The four limits of a server of which only the metrics page is known. Seconds from now."""
    unseen = "a metrics page says nothing of it"
    if fit.time is None:
        kv = Limit(KV, Outcome.NEVER, fit.why)
    else:
        ends = [None if end is None else max(0.0, end - now) for end in (fit.lower, fit.upper)]
        why = fit.why or "full, if nobody comes or leaves, and no window bounds the sessions"
        kv = Limit(KV, Outcome.DATE, why, max(0.0, fit.time - now), ends[0], ends[1])
    age = "neither the last position nor the age of sessions is on a metrics page"
    return [
        kv,
        Limit(POSITIONS, Outcome.UNKNOWN, age),
        Limit(ENCODER, Outcome.UNKNOWN, unseen),
        Limit(HOST, Outcome.UNKNOWN, unseen),
    ]


def _line(now: float, fit: Fit | None, text: str) -> str:
    """One sample of a watch as a line of JSON."""
    left = None if fit is None or fit.time is None else max(0.0, fit.time - now)
    return msgspec.json.encode({"t": round(now, 3), "left": left, "text": text, "fit": fit}).decode()
