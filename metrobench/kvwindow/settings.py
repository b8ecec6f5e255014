"""The one setting of the plugin: the environment variable KVWINDOW."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from metrobench.kvwindow.mask import Window, cdiv

VARIABLE = "KVWINDOW"
MAX_TOKENS = 1_048_576
EXACT_ROWS = 128
"""Exact mode: queries a row of the compacted batch may hold. The mask does not depend on it."""

_POLICY = re.compile(r"(?:window:)?(\d{1,9})(?:\+(\d{1,9}))?")
_FORM = f"{VARIABLE} reads W+S[,align=G][,exact], for example {VARIABLE}=1024+16"


@dataclass(frozen=True, slots=True)
class Settings:
    """The window as asked for, in tokens, before it is rounded to blocks."""

    window: int
    sinks: int = 0
    align: int = 0
    """0: one block (aligned mode) or EXACT_ROWS (exact mode)."""
    exact: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.window <= MAX_TOKENS:
            raise ValueError(f"{VARIABLE}: the window must be 1 to {MAX_TOKENS} tokens, not {self.window}")
        if not 0 <= self.sinks <= MAX_TOKENS:
            raise ValueError(f"{VARIABLE}: the sinks must be 0 to {MAX_TOKENS} tokens, not {self.sinks}")
        if not 0 <= self.align <= MAX_TOKENS:
            raise ValueError(f"{VARIABLE}: align must be 0 to {MAX_TOKENS} tokens, not {self.align}")

    def on(self, block: int) -> Window:
        """The effective window on blocks of `block` tokens: rounded up to blocks, in exact mode only the align is."""
        align = cdiv(self.align or (EXACT_ROWS if self.exact else block), block) * block
        if self.exact:
            return Window(self.window, self.sinks, align, exact=True)
        return Window(cdiv(self.window, block) * block, cdiv(self.sinks, block) * block, align)


def parse(text: str) -> Settings:
    """`W`, `W+S` or `window:W+S`, then any of `,align=G` and `,exact`. Raises ValueError with a sentence."""
    policy, *options = (part.strip() for part in text.split(","))
    match = _POLICY.fullmatch(policy)
    if not match:
        raise ValueError(f"{VARIABLE}={text!r} is not a window; {_FORM}")
    align, exact = 0, False
    for option in options:
        name, _, value = option.partition("=")
        if name == "align" and re.fullmatch(r"\d{1,9}", value):
            align = int(value)
        elif option == "exact":
            exact = True
        else:
            raise ValueError(f"{VARIABLE}: {option!r} is not an option; {_FORM}")
    return Settings(int(match[1]), int(match[2] or 0), align, exact)


def from_environment(environment: Mapping[str, str] | None = None) -> Settings | None:
    """The settings of this process, None when the plugin is off. Raises ValueError with a sentence."""
    text = (os.environ if environment is None else environment).get(VARIABLE, "").strip()
    return parse(text) if text else None
