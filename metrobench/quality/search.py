"""The smallest window that costs no answers, by bisection over a list of windows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from metrobench.errors import UsageError
from metrobench.policy import SINKS, WINDOW, KvPolicy, parse_policy
from metrobench.quality.analysis import LATE, LOSES, ArmFacts, Finding, analyse
from metrobench.quality.bands import Estimate

MOST_NLL = 0.1
"""Largest loss of likelihood, nats a token, of a window that costs no answers."""
KEEPS, LOSES_TOO_MUCH, UNSURE = "keeps", "loses", "cannot tell"


class Tried(Struct, frozen=True):
    """One window, judged at ages of LATE times its own width and more."""

    policy: str
    answer: str
    """keeps, loses or cannot tell."""
    late: Estimate | None
    """Right answers; None: its sessions do not become so old."""
    loss: Estimate | None
    nll_loss: Estimate | None


class Found(Struct, frozen=True):
    """What one search found."""

    sinks: int
    smallest: str | None
    """The narrowest policy seen to keep; None: none did."""
    sure: bool
    """The next narrower one, where there is one, was seen to lose."""
    tried: list[Tried]


def parse_windows(asked: str, block: int) -> list[int]:
    """Rising widths on whole blocks from `64,128,256`. Raises UsageError."""
    try:
        widths = {parse_policy(f"window:{part.strip()}", block).window for part in asked.split(",")}
    except UsageError as error:
        raise UsageError(
            f"--find-window {asked!r} is no list of windows", "write for example --find-window 64,128,256"
        ) from error
    if len(widths) < 2:
        raise UsageError(f"--find-window {asked!r} names one window", "two or more of them can be searched")
    return sorted(widths)


def policy_of(width: int, sinks: int) -> KvPolicy:
    """`sinks` 0: vLLM's own window."""
    return KvPolicy(SINKS, width, sinks) if sinks else KvPolicy(WINDOW, width)


def bisect(widths: Sequence[int], sinks: int, probe: Callable[[KvPolicy], Tried | None]) -> Found:
    """The narrowest of rising `widths` that keeps, where each that is wider than one that keeps does so too.

    `probe` judges a policy; None: the search was stopped.
    """
    low, high = -1, len(widths)
    tried: dict[int, Tried] = {}
    while high - low > 1:
        middle = (low + high) // 2
        seen = probe(policy_of(widths[middle], sinks))
        if seen is None:
            break
        tried[middle] = seen
        if seen.answer == KEEPS:
            high = middle
        else:
            low = middle
    whole = high - low <= 1
    smallest = tried[high].policy if high in tried else None
    sure = whole and (low < 0 or tried[low].answer == LOSES_TOO_MUCH)
    return Found(sinks, smallest, sure, [tried[place] for place in sorted(tried)])


def judge(full: ArmFacts, arm: ArmFacts) -> Tried:
    """One window against unbounded KV, at its own ages."""
    policy = parse_policy(arm.arm.policy)
    found: Finding = analyse([full, arm], policy.window, 1, 0, 0).findings[1]
    return Tried(arm.arm.policy, _answer(found), found.late, found.loss, found.nll_loss)


def _answer(found: Finding) -> str:
    loss = found.nll_loss
    if found.late is None or loss is None:
        return UNSURE
    if found.verdict == LOSES or loss.lower > MOST_NLL:
        return LOSES_TOO_MUCH
    # a small loss of likelihood may still end in a loop, once the session feeds on its own words
    answers_lost = found.loss is None or found.loss.lower > 0.0
    return KEEPS if loss.upper <= MOST_NLL and not answers_lost else UNSURE


def widest(length: int) -> int:
    """Largest window that sessions of `length` tokens say something about."""
    return int(length / (1.25 * LATE))
