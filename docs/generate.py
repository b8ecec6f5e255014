"""The parts of the pages that come from the code: `python docs/generate.py` writes them, `--check` only compares.

A page holds `<!-- made: NAME WORDS -->`, the part, `<!-- end -->`; NAME is one of PARTS, the words are what it takes.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import click
from click.testing import CliRunner

from metrobench.cli.main import COMMANDS, cli
from metrobench.errors import EXIT_CODES
from metrobench.gate.comparability import NAMES
from metrobench.measure.warnings import Warn

DOCS = Path(__file__).parent
ROOT = DOCS.parent
_PART = re.compile(r"(<!-- made: ([^>\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """A page with every part of it made anew."""

    def made(part: re.Match[str]) -> str:
        name, *words = part[2].split()
        return f"{part[1]}{PARTS[name](*words)}\n{part[3]}"

    return _PART.sub(made, page)


def command_list() -> str:
    """Every command with its one line."""
    rows = [(f"[`{name}`](#{name})", words) for name, words in COMMANDS.items()]
    return _table(("command", "what it does"), rows)


def command_help(*path: str) -> str:
    """What `metrobench PATH --help` prints, and that of the commands below it."""
    found: click.Command = cli
    for name in path:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name) or found
    printed = CliRunner().invoke(cli, [*path, "--help"], prog_name="metrobench", env={"COLUMNS": "80"}).stdout
    shown = [f"```text\n{printed.rstrip()}\n```"]
    if isinstance(found, click.Group):
        shown += [command_help(*path, name) for name in found.list_commands(click.Context(found))]
    return "\n\n".join(shown)


def warnings() -> str:
    """Every warning of a record with its advice."""
    return _table(("warning", "what it means, what to do"), [(f"`{each.value}`", each.advice) for each in Warn])


def exit_codes() -> str:
    """Every exit code with its meaning."""
    return _table(("code", "meaning"), [(str(code), words) for code, words in EXIT_CODES.items()])


def conditions() -> str:
    """What must be alike for two records to be compared, by the name that --allow takes."""
    return _table(("name", "what must be the same"), [(f"`{name}`", words) for name, words in NAMES.items()])


def fields(file: str, name: str) -> str:
    """The fields of a class, from its source: name, type, docstring."""
    body = next(
        each.body
        for each in ast.parse((ROOT / file).read_text("utf-8")).body
        if isinstance(each, ast.ClassDef) and each.name == name
    )
    rows = []
    for each, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(each, ast.AnnAssign):
            continue
        told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and after.value.value
        rows.append(
            (
                f"`{ast.unparse(each.target)}`",
                f"`{ast.unparse(each.annotation).replace(' | ', ' or ')}`",
                str(told or ""),
            )
        )
    return _table(("field", "type", "meaning"), rows)


def columns(file: str, name: str) -> str:
    """The names in an assignment, each with the comment of its line."""
    text = (ROOT / file).read_text("utf-8")
    node = next(
        each
        for each in ast.parse(text).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name and each.end_lineno
    )
    part = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
    rows, found = [], ""
    for token in tokenize.generate_tokens(StringIO(part + "\n").readline):
        if token.type == tokenize.STRING and not found:
            found = ast.literal_eval(token.string)
        elif token.type == tokenize.COMMENT and found:
            rows.append((f"`{found}`", token.string.removeprefix("#").strip()))
        elif token.type == tokenize.NL:
            found = ""
    return _table(("column", "meaning"), rows)


PARTS: dict[str, Callable[..., str]] = {
    "commands": command_list,
    "help": command_help,
    "warnings": warnings,
    "exit-codes": exit_codes,
    "conditions": conditions,
    "fields": fields,
    "columns": columns,
}


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(check: bool) -> int:
    """Write the pages whose parts are stale, or with `check` name them; the exit code."""
    stale = []
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text("utf-8")
        if (made := filled(text)) != text:
            stale.append(page)
            if not check:
                page.write_text(made, "utf-8")
    for page in stale:
        print(f"{page.relative_to(ROOT)} {'is stale: run make docs' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
