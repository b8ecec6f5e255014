"""Rules as data: which number, which bound, which limit."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from metrobench.errors import UsageError
from metrobench.units import parse_duration, parse_rate

MAX_DROP, MAX_RISE, MAX, MIN, NONE = "max_drop", "max_rise", "max", "min", "none"
BOUNDS = {
    "mscs": (MAX_DROP, MIN),
    "miss_rate": (MAX,),
    "p50": (MAX_RISE, MAX),
    "p99": (MAX_RISE, MAX),
    "drift": (MAX,),
    "collapse": (NONE, MAX),
    "forecast": (MIN,),
    "quality": (MAX_DROP, MIN),
}
"""Numbers that rules are about, and the bounds each may be given."""
EXAMPLES = {
    "mscs": 'max_drop = "15%"',
    "miss_rate": 'max = "1%"',
    "p50": 'max_rise = "10%"',
    "p99": 'max_rise = "10%"',
    "drift": 'max = "1ms/min"',
    "collapse": "none = true",
    "forecast": 'min = "30m"',
    "quality": 'max_drop = "5%"',
}
DEFAULT = {"mscs": {MAX_DROP: "15%"}, "miss_rate": {MAX: "1%"}, "collapse": {NONE: True}}
"""The policy where none is given; each rule applies where there are records for it."""
RELATIVE = (MAX_DROP, MAX_RISE)
"""Bounds that need a baseline."""


class Rule(Struct, frozen=True):
    """One rule."""

    metric: str
    bound: str
    limit: float
    """A fraction, seconds, seconds per second or sessions, by metric and bound; 0 for `none`."""
    text: str
    """As typed: `max_drop 15%`."""

    @property
    def name(self) -> str:
        """As people read it."""
        return f"{self.metric} {self.text}"


class Policy(Struct, frozen=True):
    """The rules of one gate."""

    rules: tuple[Rule, ...]
    asked: bool
    """False: the default ones. A rule that was asked for and finds no record cannot tell."""


def parse_policy(table: Mapping[str, Any], where: str) -> Policy:
    """Rules from a table of TOML; `where` it stands, for errors. Raises UsageError."""
    rules = [rule for metric, value in table.items() for rule in _rules(metric, value, where)]
    if not rules:
        raise UsageError(f"{where} holds no rule", 'write for example:  mscs = { max_drop = "15%" }')
    return Policy(tuple(rules), asked=True)


def default_policy() -> Policy:
    """DEFAULT, as rules."""
    return Policy(parse_policy(DEFAULT, "the default policy").rules, asked=False)


def _rules(metric: str, value: Any, where: str) -> list[Rule]:
    if metric not in BOUNDS:
        close = difflib.get_close_matches(metric, BOUNDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(BOUNDS)}"
        raise UsageError(f"{where}: there is no rule about {metric!r}", hint)
    if value == NONE:
        value = {NONE: True}
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"{where}: {metric} wants a bound", f"write for example:  {metric} = {{ {EXAMPLES[metric]} }}")
    return [_rule(metric, bound, limit, where) for bound, limit in value.items()]


def _rule(metric: str, bound: str, limit: Any, where: str) -> Rule:
    if bound not in BOUNDS[metric]:
        raise UsageError(f"{where}: {metric} takes no {bound!r}", f"it takes {' or '.join(BOUNDS[metric])}")
    if bound == NONE:
        if limit is not True:
            raise UsageError(f"{where}: {metric} none is either true or not there")
        return Rule(metric, bound, 0.0, NONE)
    name = f"{where}: {metric} {bound}"
    if isinstance(limit, bool) or not isinstance(limit, str | int | float):
        raise UsageError(f"{name} must be a number or a word", f"write for example:  {EXAMPLES[metric]}")
    return Rule(metric, bound, _limit(metric, bound, str(limit), name), f"{bound} {limit}")


def _limit(metric: str, bound: str, text: str, name: str) -> float:
    if bound == MAX_RISE and (match := re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)):
        # a rise may be 100 % and more
        value = float(match[1]) / 100.0
        if 0.0 < value <= 100.0:
            return value
    if bound in RELATIVE or metric in ("miss_rate", "collapse", "quality"):
        return parse_rate(text, name=name)
    if metric == "mscs":
        value = float(text) if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text) else math.nan
        if not 1.0 <= value <= 1e6:
            raise UsageError(f"{name} {text!r} is not a number of sessions", "write for example:  min = 40")
        return value
    if metric == "drift":
        return _drift(text, name)
    return parse_duration(text, name=name)


def _drift(text: str, name: str) -> float:
    """Seconds per second from `1ms/min`."""
    amount, _, per = text.partition("/")
    if per.strip() not in ("min", "m", "s", "h"):
        raise UsageError(f"{name} {text!r} is not a drift", 'write for example:  max = "1ms/min"')
    return parse_duration(amount, name=name) / parse_duration(f"1{per.strip()}")
