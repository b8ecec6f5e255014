"""Corpora and their files as plain text, 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from rich.cells import cell_len, set_cell_size

from metrobench.corpus.keep import Looked
from metrobench.corpus.manifest import UNKNOWN, Clip
from metrobench.corpus.packs import Pack
from metrobench.units import percent, seconds

WIDTH = 80
MOST_SHOWN = 20
"""Files with trouble that are shown one by one."""


def packs_table(packs: Sequence[Pack]) -> str:
    """One line a corpus: name, clips, length, human share, languages, licence."""
    rows = [("name", "clips", "length", "human", "languages", "licence")]
    for pack in packs:
        rows.append(
            (
                pack.name,
                str(len(pack.clips)),
                seconds(round(pack.seconds)),
                percent(pack.human, 0) if pack.listed else "?",
                ", ".join(_languages(pack)),
                ", ".join(pack.licences),
            )
        )
    limits = (24, 6, 12, 6, 24, WIDTH)
    cut = [tuple(shorten(cell, limit) for cell, limit in zip(row, limits, strict=True)) for row in rows]
    widths = [max(len(row[column]) for row in cut) for column in range(5)]
    lines = []
    for name, clips, length, human, languages, licence in cut:
        numbers = f"{clips:>{widths[1]}}  {length:>{widths[2]}}  {human:>{widths[3]}}"
        lines.append(shorten(f"{name:<{widths[0]}}  {numbers}  {languages:<{widths[4]}}  {licence}".rstrip(), WIDTH))
    return "\n".join(lines)


def clips_table(pack: Pack) -> str:
    """One line a clip: length, language, who speaks, file, and what is said as far as there is room."""
    rows = [("length", "lang", "voice", "file", "says")]
    for clip in pack.clips:
        rows.append((f"{clip.seconds:.1f} s", clip.language, _voice(pack, clip), tail(clip.file, 34), clip.transcript))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [summary(pack), ""]
    for length, language, voice, file, says in rows:
        left = f"{length:>{widths[0]}}  {language:<{widths[1]}}  {voice:<{widths[2]}}  {file:<{widths[3]}}"
        lines.append(shorten(f"{left}  {' '.join(says.split())}".rstrip(), WIDTH))
    return "\n".join(lines)


def summary(pack: Pack) -> str:
    """One corpus in a line or two."""
    count = "1 clip" if len(pack.clips) == 1 else f"{len(pack.clips)} clips"
    words = [f"{shorten(pack.name, 40)}: {count}", seconds(round(pack.seconds))]
    if pack.listed:
        words += [f"{percent(pack.human, 0)} human", ", ".join(_languages(pack))]
    return shorten(" · ".join(word for word in words if word), WIDTH)


def troubles(looked: Sequence[Looked]) -> list[str]:
    """One line for each thing wrong with a file, the first MOST_SHOWN files."""
    lines = []
    for file, problem in ((one.file, problem) for one in looked[:MOST_SHOWN] for problem in one.health.problems):
        line = f"{tail(file, max(36, WIDTH - 3 - len(problem.text)))} {problem.text}"
        lines += textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    if len(looked) > MOST_SHOWN:
        lines.append(f"  and {len(looked) - MOST_SHOWN} more files (--json lists all)")
    return lines


def aligned(facts: Mapping[str, str]) -> list[str]:
    """Names and values in two columns."""
    width = max(map(len, facts)) + 2
    lines = []
    for name, value in facts.items():
        lines += textwrap.wrap(
            value,
            WIDTH,
            initial_indent=name.ljust(width),
            subsequent_indent=" " * width,
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def shorten(text: str, width: int) -> str:
    """`text`, cut at its end to `width` columns; Chinese and the like take two each."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def tail(text: str, width: int) -> str:
    """`text`, cut at its beginning to `width` characters."""
    return text if len(text) <= width else "…" + text[-(width - 1) :]


def _languages(pack: Pack) -> list[str]:
    return [language for language in pack.languages if language != UNKNOWN]


def _voice(pack: Pack, clip: Clip) -> str:
    if not pack.listed:
        return "?"
    return "human" if clip.human else "generated"
