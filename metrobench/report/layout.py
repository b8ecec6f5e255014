"""Lines of plain text, 80 columns wide."""

from __future__ import annotations

import textwrap

WIDTH = 80


def wrap(text: str, indent: str = "", first: str | None = None) -> list[str]:
    """`text` in lines that begin with `indent`, the first one with `first`."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent if first is None else first, subsequent_indent=indent, break_on_hyphens=False
    )


def hang(left: str, text: str) -> list[str]:
    """`text` after `left`, its further lines under its first."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=left, subsequent_indent=" " * len(left), break_on_hyphens=False
    ) or [left.rstrip()]
