"""Is it the answer? And the symptoms of a session that talks to itself. Pure text and token arithmetic."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

WORD = 4
"""Aliases of at most so many letters count only as whole words."""
GRAM = 4
"""Tokens of what counts as a repetition."""
LOOK_BACK = 96
"""Tokens of a session's own speech in which repetition is looked for."""
_WORDS = re.compile(r"[^\W_]+")


def normalised(text: str) -> str:
    """Lower case letters and digits of `text`, words between single spaces, one space at either end."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return f" {' '.join(_WORDS.findall(plain))} "


def answers(text: str, aliases: Sequence[str]) -> bool:
    """Whether `text` names one of the aliases."""
    said = normalised(text)
    for alias in aliases:
        wanted = normalised(alias)
        if (wanted if len(wanted) - 2 <= WORD else wanted[:-1]) in said:
            return True
    return False


def hollow(text: str) -> bool:
    """Whether nothing is said: no letter and no digit."""
    return not normalised(text).strip()


def repetition(tokens: Sequence[int]) -> float:
    """Share of GRAM-token runs in the last LOOK_BACK tokens that were there before; 0 for too few tokens."""
    recent = tokens[-LOOK_BACK:]
    grams = [tuple(recent[place : place + GRAM]) for place in range(len(recent) - GRAM + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0
