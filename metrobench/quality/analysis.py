"""From replies to findings: accuracy and likelihood by age, what each policy costs, and whether to believe it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from metrobench.policy import parse_policy
from metrobench.quality import arms, checks
from metrobench.quality.arms import Arm
from metrobench.quality.bands import Estimate, Scores, band_name, bands, estimate, paired
from metrobench.quality.checks import Check, Onset
from metrobench.quality.probe import Likelihood, Reply

LATE = 2.0
"""Windows of age from which answers count for the verdict on a policy."""
KEPT = 0.1
"""Largest share of full KV's answers that a policy may lose and count as keeping them."""
LOST = 0.2
"""Smallest loss that counts as losing them."""

KEEPS, LOSES, UNCLEAR, BASE = "keeps answering", "stops answering", "cannot tell", "the base"


class ArmFacts(Struct, frozen=True):
    """All that one arm said."""

    arm: Arm
    replies: list[Reply]
    likelihoods: list[Likelihood]
    """Of the scripted replay; empty where there was none."""
    text: list[float] = []
    """Negative log-likelihood of each token but the first of a text that was read; nats."""


class Counts(Struct, frozen=True):
    """What became of questions that were asked aloud."""

    right: int
    wrong: int
    none: int
    """Silence, or no word."""
    late: int
    """An answer, but not complete in time: it may have been right."""


class Band(Struct, frozen=True):
    """One arm at one age."""

    age: str
    """In windows, such as 2-4; of a spoken probe in time."""
    accuracy: Estimate | None
    nll: Estimate | None
    """Negative log-likelihood of gold answers, nats a token."""
    nll_loss: Estimate | None
    """The same less that of unbounded KV, answer by answer."""
    repetition: float | None
    """Mean share of repeated 4-grams."""
    hollow: int
    first: int
    """Answers that name the session's first answer instead of their own."""
    asked: Counts | None = None
    """Spoken: what `accuracy`, the share of right ones among answers in time, leaves out."""


class TextBand(Struct, frozen=True):
    """One reading of a text, at one age. It is one text and one pass, so there is no interval."""

    age: str
    tokens: int
    nll: float
    """Nats a token."""


class Finding(Struct, frozen=True):
    """One arm."""

    arm: Arm
    name: str
    bands: list[Band]
    late: Estimate | None
    """Accuracy from LATE windows of age on."""
    loss: Estimate | None
    """Right answers lost against unbounded KV from there on, share of all; paired."""
    nll_loss: Estimate | None
    """Paired, from there on; nats a token."""
    onset: Onset | None
    verdict: str
    samples: list[str]
    """One answer of each band, in session 0."""
    text: list[TextBand] = []
    """Likelihood of the user's text by position."""
    in_time: Estimate | None = None
    """Spoken: share of questions, at the ages of `late`, that were answered in time, rightly or not."""


class Quality(Struct, frozen=True):
    """What the probe found."""

    window: int
    """W of ages, tokens; of a spoken probe the seconds from which a session is old."""
    findings: list[Finding]
    checks: list[Check]
    believed: bool
    claims: list[str]


def analyse(
    facts: Sequence[ArmFacts], window: int, block: int, known: int, asked: int, searched: bool = False
) -> Quality:
    """Judge all arms. `window`: W of ages; `known` of `asked` questions were answered in fresh context. `searched`: for
    the smallest window, so that none need lose anything."""
    full = {each.arm.condition: each for each in facts if each.arm.policy == "unbounded"}
    findings = [_finding(each, full.get(each.arm.condition), window) for each in facts]
    tests = _checks(facts, findings, window, block, known, asked, searched)
    believed = all(check.state != checks.BROKEN for check in tests)
    return Quality(window, findings, tests, believed, _claims(findings) if believed else [])


def accuracy(replies: Sequence[Reply]) -> Scores:
    """Rights and wrongs, session by session."""
    ordered = sorted(replies, key=lambda reply: (reply.session, reply.place))
    return _scores([(reply.session, reply.age, float(reply.right)) for reply in ordered], share=True)


def likelihood(found: Sequence[Likelihood]) -> Scores:
    """Negative log-likelihoods, session by session."""
    ordered = sorted(found, key=lambda each: (each.session, each.place))
    return _scores([(each.session, each.age, each.nll) for each in ordered], share=False)


def _scores(rows: Sequence[tuple[int, int, float]], share: bool) -> Scores:
    return Scores(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64),
        share,
    )


def _finding(each: ArmFacts, full: ArmFacts | None, window: int) -> Finding:
    right, nll = accuracy(each.replies), likelihood(each.likelihoods)
    base = accuracy(full.replies) if full else None
    base_nll = likelihood(full.likelihoods) if full and full.likelihoods else None
    oldest = float(right.age.max()) if len(right.age) else 0.0
    late, for_ever = LATE * window, float("inf")
    loss = _minus(base, right, late, for_ever) if base else None
    is_base = full is each
    free = each.arm.condition == arms.FREE
    return Finding(
        arm=each.arm,
        name=each.arm.name,
        bands=[_band(each, right, nll, base_nll, low, high, window) for low, high in bands(oldest, window)],
        late=estimate(right.within(late, for_ever)),
        loss=None if is_base else loss,
        nll_loss=None if is_base or base_nll is None else _minus(nll, base_nll, late, for_ever),
        onset=checks.onset(right, base) if base and free and not is_base and loss and loss.lower > 0 else None,
        verdict=BASE if is_base else verdict_on(loss),
        samples=_samples(each, oldest, window),
        text=_text(each.text, window),
    )


def _text(nll: Sequence[float], window: int) -> list[TextBand]:
    """The text by position, in the same bands."""
    found = []
    for low, high in bands(len(nll), window):
        part = nll[int(low * window) : None if high == float("inf") else int(high * window)]
        if part:
            found.append(TextBand(band_name(low, high), len(part), float(np.mean(part))))
    return found


def _band(
    each: ArmFacts, right: Scores, nll: Scores, base: Scores | None, low: float, high: float, window: int
) -> Band:
    begin, end = low * window, high * window
    held = [reply for reply in each.replies if begin <= reply.age < end]
    return Band(
        age=band_name(low, high),
        accuracy=estimate(right.within(begin, end)),
        nll=estimate(nll.within(begin, end)),
        nll_loss=None if base is None else _minus(nll, base, begin, end),
        repetition=float(np.mean([reply.repetition for reply in held])) if held else None,
        hollow=sum(reply.hollow for reply in held),
        first=sum(reply.first for reply in held),
    )


def _minus(one: Scores, other: Scores, begin: float, end: float) -> Estimate | None:
    """Paired mean of one minus other at ages of `one`, which are those of a chat's own course; None: unlike answers."""
    if len(one.value) != len(other.value) or not len(one.value):
        return None
    held = (one.age >= begin) & (one.age < end)
    return paired(
        Scores(one.session[held], one.age[held], one.value[held]),
        Scores(other.session[held], other.age[held], other.value[held]),
    )


def verdict_on(loss: Estimate | None) -> str:
    """Keeps, loses, or neither can be said, from the interval of the loss."""
    if loss is None:
        return UNCLEAR
    if loss.upper <= KEPT:
        return KEEPS
    return LOSES if loss.lower >= LOST else UNCLEAR


def _samples(each: ArmFacts, oldest: float, window: int) -> list[str]:
    found = []
    for low, high in bands(oldest, window):
        held = [reply for reply in each.replies if reply.session == 0 and low * window <= reply.age < high * window]
        if held:
            reply = held[-1]
            found.append(f"{band_name(low, high)} W: {reply.question} → {' '.join(reply.text.split()) or '(nothing)'}")
    return found


def _checks(
    facts: Sequence[ArmFacts],
    findings: Sequence[Finding],
    window: int,
    block: int,
    known: int,
    asked: int,
    searched: bool,
) -> list[Check]:
    free = [each for each in facts if each.arm.condition == arms.FREE]
    full = next((each for each in free if each.arm.policy == "unbounded"), None)
    if full is None:
        return [Check("unbounded KV answers at every age", checks.BROKEN, "it was not asked")]
    named = {each.arm.name: finding for each, finding in zip(facts, findings, strict=True)}
    sessions = len({reply.session for reply in full.replies})
    found = checks.enough(sessions, known, asked)
    found.append(checks.full_answers({band.age: band.accuracy for band in named[full.arm.name].bands}))
    evictions = {}
    onsets: dict[int, Onset | None] = {}
    for each in free:
        policy = parse_policy(each.arm.policy)
        eviction = arms.first_eviction(policy, block)
        if eviction is not None:
            evictions[each.arm.name] = (each.replies, eviction)
        if arms.alone(policy):
            onsets[policy.window] = named[each.arm.name].onset
    found.append(checks.alike(full.replies, evictions))
    found.append(checks.moves(onsets, must_lose=not searched))
    rendered = [each for each in facts if each.arm.condition == arms.RENDERED]
    found += [checks.flat(accuracy(each.replies), LATE * window) for each in rendered]
    if not rendered:
        found.append(Check("re-rendered turns stay flat", checks.OPEN, "left out"))
    return found


def _claims(findings: Sequence[Finding]) -> list[str]:
    """Sentences that the intervals carry."""
    free = [each for each in findings if each.arm.condition == arms.FREE and each.late is not None]
    lost = [each for each in free if each.verdict == LOSES and arms.alone(parse_policy(each.arm.policy))]
    saved = [each for each in free if parse_policy(each.arm.policy).sinks]
    claims = []
    for window in lost:
        for sinks in saved:
            width = parse_policy(window.arm.policy).window
            if parse_policy(sinks.arm.policy).window != width or not window.late or not sinks.late:
                continue
            if window.late.upper < sinks.late.lower:
                claims.append(f"{window.name} alone stops answering, the sinks of {sinks.name} repair it")
    return claims
