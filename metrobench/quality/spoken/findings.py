"""From spoken replies to findings: right answers by the age of a session, against fresh sessions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from metrobench.measure.intervals import clopper_pearson
from metrobench.quality import checks
from metrobench.quality.analysis import BASE, KEEPS, LOSES, UNCLEAR, Band, Counts, Finding, Quality, verdict_on
from metrobench.quality.arms import ENDPOINT, FRESH, LONG, Arm
from metrobench.quality.bands import Estimate, Scores, estimate, minus
from metrobench.quality.checks import BROKEN, HELD, Check
from metrobench.quality.spoken.answer import RIGHT, VERDICTS, WRONG, Reply, Stage
from metrobench.units import seconds

MINUTE = 60.0
EDGES = (0.0, 30.0, *(MINUTE * 2.0**power for power in range(12)), float("inf"))
"""Ends of the bands of age, seconds."""
OLD = 0.5
"""Share of the longest session's length from which its answers decide."""
LEAST_KNOWN = 12
"""Questions that must be answered in fresh sessions."""
LEAST_OPEN = 0.9
"""Share of planned questions that must have been asked: sessions that end early leave their oldest ones out."""
LONGEST = 200
"""Characters of a sample answer."""
MOST_LATE = 0.25
"""Share of the deadline by which the client itself may be late, or late answers may be its own."""
LEAST_ANSWERED = 0.5
"""Share of questions to old sessions that must be answered in time, or too little is known of the answers."""


def analyse(choice: Stage, fresh: Stage, long: Stage, deadline: float) -> Quality:
    """Judge an endpoint by its three stages; `deadline` in seconds from the end of a question."""
    oldest = max((reply.age for reply in long.replies), default=0.0)
    old = round(OLD * oldest)
    base = _finding(fresh, FRESH, None, old)
    found = _finding(long, LONG, base.late, old)
    known = sum(reply.verdict == RIGHT for reply in choice.replies)
    tests = _checks(base, found, long, (known, len(choice.replies)), deadline)
    believed = all(check.state != BROKEN for check in tests)
    return Quality(old, [base, found], tests, believed, [_claim(found, old)] if believed else [])


def counts(replies: Sequence[Reply]) -> Counts:
    """How many of each verdict."""
    return Counts(*(sum(reply.verdict == verdict for reply in replies) for verdict in VERDICTS))


def age_name(low: float, high: float) -> str:
    """`0-30 s`, `1-2 min`, or `2048+ min`."""
    unit, scale = ("s", 1.0) if high <= MINUTE else ("min", MINUTE)
    return f"{low / scale:g}+ {unit}" if high == float("inf") else f"{low / scale:g}-{high / scale:g} {unit}"


def _finding(stage: Stage, condition: str, ceiling: Estimate | None, old: float) -> Finding:
    late = [reply for reply in stage.replies if condition == FRESH or reply.age >= old]
    right = _right(late)
    loss = minus(ceiling, right) if ceiling is not None and right is not None else None
    return Finding(
        arm=Arm(ENDPOINT, condition, control=condition == FRESH),
        name=condition,
        bands=_bands(stage.replies),
        late=right,
        loss=loss,
        nll_loss=None,
        onset=None,
        verdict=BASE if condition == FRESH else verdict_on(loss),
        samples=_samples(stage.replies),
        in_time=_share(late, (RIGHT, WRONG)),
    )


def _right(replies: Sequence[Reply]) -> Estimate | None:
    """Share of right ones among the answers that were complete in time."""
    return _share([reply for reply in replies if reply.verdict in (RIGHT, WRONG)], (RIGHT,))


def _share(replies: Sequence[Reply], verdicts: Sequence[str]) -> Estimate | None:
    """Share of these verdicts; whole sessions resampled where sessions have several answers, else exact."""
    hits = np.array([reply.verdict in verdicts for reply in replies], dtype=np.float64)
    session = np.array([reply.session for reply in replies], dtype=np.int64)
    if not len(hits):
        return None
    if len(np.unique(session)) == len(session):
        exact = clopper_pearson(float(hits.sum()), float(len(hits)))
        return Estimate(exact.value, exact.lower, exact.upper, len(hits), len(hits))
    return estimate(Scores(session, np.array([round(reply.age) for reply in replies]), hits))


def _bands(replies: Sequence[Reply]) -> list[Band]:
    found = []
    for low, high in pairwise(EDGES):
        held = [reply for reply in replies if low <= reply.age < high]
        if held:
            right = _right(held)
            found.append(Band(age_name(low, high), right, None, None, None, 0, 0, counts(held)))
    return found


def _samples(replies: Sequence[Reply]) -> list[str]:
    """Of the session that was heard first, an answer of each band."""
    chosen: dict[float, Reply] = {}
    for reply in replies:
        if reply.session == min(each.session for each in replies):
            chosen[next(low for low, high in pairwise(EDGES) if low <= reply.age < high)] = reply
    return [
        f"{seconds(reply.age)}: {reply.question} → {_shown(reply.text)} ({reply.verdict})" for reply in chosen.values()
    ]


def _shown(text: str) -> str:
    return " ".join(text.split())[:LONGEST] or "(nothing)"


def _checks(base: Finding, found: Finding, long: Stage, answered: tuple[int, int], deadline: float) -> list[Check]:
    known, asked = answered
    sessions = len({reply.session for reply in long.replies})
    planned = len(long.replies) + long.unasked
    heard = len(long.replies) / planned if planned else 0.0
    ceiling, in_time = base.late, found.in_time
    return [
        _check("enough sessions", sessions >= checks.LEAST_SESSIONS,
               f"{sessions} long sessions; at least {checks.LEAST_SESSIONS} are needed"),
        _check("the endpoint knows the answers", known >= LEAST_KNOWN,
               f"{known} of {asked} questions answered in fresh sessions; at least {LEAST_KNOWN} are needed"),
        _check("it goes on knowing them in fresh sessions", ceiling is not None and ceiling.value >= checks.LEAST_FULL,
               "no answer in time" if ceiling is None
               else f"{ceiling.value:.0%} right when asked again; at least {checks.LEAST_FULL:.0%} are needed"),
        _check("sessions stay open", heard >= LEAST_OPEN,
               f"{len(long.replies)} of {planned} questions were asked and listened to; {long.opened} of {long.planned}"
               f" sessions were opened, {long.closed} of them ended by the endpoint before their time"),
        _check("the client kept its own time", (long.lateness or 0.0) <= MOST_LATE * deadline,
               "not recorded" if long.lateness is None else
               f"{seconds(long.lateness)} late at the most; {seconds(MOST_LATE * deadline)} are allowed"),
        _check("old sessions are answered in time", in_time is not None and in_time.value >= LEAST_ANSWERED,
               "none was asked" if in_time is None else
               f"{in_time.value:.0%} of their questions; at least {LEAST_ANSWERED:.0%} are needed to judge answers"),
    ]  # fmt: skip


def _check(name: str, held: bool, seen: str) -> Check:
    return Check(name, HELD if held else BROKEN, seen)


def _claim(found: Finding, old: float) -> str:
    words = {KEEPS: "keeps answering right", LOSES: "stops answering right", UNCLEAR: "may or may not answer right"}
    return f"the endpoint {words[found.verdict]} in sessions older than {seconds(old)}"
