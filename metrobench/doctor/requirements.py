"""Version requirements as `importlib.metadata` gives them, for the few forms that pyproject.toml uses. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from msgspec import Struct

Release = tuple[int, ...]

_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9][0-9A-Za-z.+]*)")
_COMPARE: dict[str, Callable[[Release, Release], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


class Requirement(Struct, frozen=True):
    """`vllm<0.33,>=0.26; extra == "gpu"`."""

    name: str
    range: str
    """`<0.33,>=0.26`; empty: any version."""
    extra: str
    """`gpu`; empty: always required."""


def parse_requirement(text: str) -> Requirement:
    """Raises ValueError on anything that names no package."""
    head, _, marker = text.partition(";")
    match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*(.*?)\s*$", head)
    if match is None:
        raise ValueError(f"{text!r} is no requirement")
    extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker)
    return Requirement(match[1], match[2].strip("() "), extra[1] if extra else "")


def release(version: str) -> Release:
    """(0, 32) from `0.32.0rc1+cpu`: the numbers that ranges compare, trailing zeros off."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in match[1].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def within(version: str, allowed: str) -> bool:
    """True where `version` satisfies every clause of a range such as `<0.33,>=0.26`."""
    return all(_COMPARE[sign](release(version), release(bound)) for sign, bound in _CLAUSE.findall(allowed))
