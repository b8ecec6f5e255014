"""What the README and the documentation tell people to type: every command in them, and every block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLUGIN = "metrobench/kvwindow/README.md"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / PLUGIN]
}
"""Every page of the documentation by its place in the tree."""

PROGRAMS = ("metrobench", "make", "pip", "source", "python", "python3")
"""First words that make a line or an inline span a command."""
_PROMPT = "$ "
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_COMMENT = re.compile(r"\s{2,}#.*$")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    lines: list[str]
    """A command over several lines is one line here."""

    @property
    def prompted(self) -> bool:
        """It shows commands after a prompt, with what they print."""
        return any(line.startswith(_PROMPT) for line in self.lines)

    @property
    def typed(self) -> bool:
        """It holds commands and nothing else."""
        return not (self.prompted or self.language) and _is_command(self.lines[0])

    @property
    def commands(self) -> list[str]:
        """What is typed in it."""
        if self.prompted:
            return [line.removeprefix(_PROMPT) for line in self.lines if line.startswith(_PROMPT)]
        return [_COMMENT.sub("", line) for line in self.lines if line] if self.typed else []

    @property
    def printed(self) -> dict[str, list[str]]:
        """Each command after a prompt, and the lines that it prints."""
        found: dict[str, list[str]] = {}
        for line in self.lines:
            if line.startswith(_PROMPT):
                found[line.removeprefix(_PROMPT)] = shown = []
            elif found:
                shown.append(line)
        return found


def blocks(text: str = README) -> list[Block]:
    """All fenced blocks in order."""
    return [Block(language, _joined(body).splitlines()) for language, body in _FENCE.findall(text)]


def spans(text: str = README) -> list[str]:
    """All inline code outside of fenced blocks, each on one line."""
    return [" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", text))]


def commands(text: str = README) -> list[str]:
    """Every command once, in the order of the text: those of blocks, then those in sentences and tables."""
    shown = [command for block in blocks(text) for command in block.commands]
    return list(dict.fromkeys([*shown, *(span for span in spans(text) if _is_command(span))]))


def told() -> list[str]:
    """Every command of the README, then those that only the documentation has."""
    return list(dict.fromkeys(command for text in (README, *PAGES.values()) for command in commands(text)))


def _is_command(line: str) -> bool:
    first, _, rest = line.partition(" ")
    return first in PROGRAMS and bool(rest.strip())


def _joined(body: str) -> str:
    return re.sub(r" *\\\n *", " ", body)
