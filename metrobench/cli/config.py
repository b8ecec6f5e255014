"""Settings from a file of the current folder: `metrobench.toml`, or `[tool.metrobench]` in pyproject.toml.

Keys are the options' names; a table of a command's name holds what is meant for that command alone.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from metrobench.errors import UsageError

FILES: tuple[tuple[str, tuple[str, ...]], ...] = (("metrobench.toml", ()), ("pyproject.toml", ("tool", "metrobench")))
"""Where settings may stand, the first found wins: file, and the table inside it."""
_META = "metrobench.config"
GATE = "gate"
LISTS = ("vllm-args", "allow", "header")
"""Options that take a list as it is."""


def read_file(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """Name of the file and its settings; None where there are none. Raises UsageError."""
    for name, inside in FILES:
        try:
            with (folder / name).open("rb") as file:
                table: Any = tomllib.load(file)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            if inside and isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError):
                continue  # somebody's pyproject.toml is not ours to judge
            raise UsageError(f"{name} cannot be read: {error}") from error
        for part in inside:
            table = table.get(part, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            raise UsageError(f"{name}: {'.'.join(inside)} is not a table")
        if table:
            return name, table
    return None


def defaults(
    file: str, settings: Mapping[str, Any], commands: Mapping[str, click.Command]
) -> dict[str, dict[str, Any]]:
    """click's default_map, command name to parameter name to value. Raises UsageError for what no command knows."""
    settings = {name: _without_rules(name, table) for name, table in settings.items()}
    own = {name: table for name, table in settings.items() if name in commands and isinstance(table, dict)}
    common = {name: value for name, value in settings.items() if name not in own}
    found: dict[str, dict[str, Any]] = {command: {} for command in commands}
    for key, value in common.items():
        takers = {command: name for command in commands if (name := _parameter(commands[command], key)) is not None}
        if not takers:
            raise _unknown(file, key, [key for command in commands.values() for key in _names(command)] + [*commands])
        for command, name in takers.items():
            found[command][name] = _value(file, key, value)
    for command, table in own.items():
        for key, value in table.items():
            own_name = _parameter(commands[command], key)
            if own_name is None:
                names = [*_names(commands[command]), *_rules(command)]
                raise _unknown(file, f"{command}.{key}", [f"{command}.{name}" for name in names])
            found[command][own_name] = _value(file, key, value)
    return found


def _without_rules(name: str, table: Any) -> Any:
    """The settings of `gate` without its rules, which that command reads itself."""
    if name != GATE or not isinstance(table, dict):
        return table
    return {key: value for key, value in table.items() if key not in _rules(name)}


def _rules(command: str) -> tuple[str, ...]:
    """Keys of a command's table that are no options."""
    if command != GATE:
        return ()
    from metrobench.gate.rules import BOUNDS

    return tuple(BOUNDS)


def gate_rules(folder: Path) -> tuple[str, dict[str, Any]] | None:
    """The file and the rules for `gate` in it; None where there are none. Raises UsageError."""
    found = read_file(folder)
    table = found[1].get(GATE) if found else None
    if found is None or not isinstance(table, dict):
        return None
    rules = {key: value for key, value in table.items() if key in _rules(GATE)}
    return (found[0], rules) if rules else None


def note(context: click.Context, file: str) -> None:
    """Remember, for the command that is about to run, where its defaults come from."""
    context.meta[_META] = file


def origin() -> tuple[str, list[str]] | None:
    """The file that settings of the running command come from, and their option names; None where none do."""
    context = click.get_current_context(silent=True)
    if context is None or _META not in context.meta:
        return None
    source = click.core.ParameterSource.DEFAULT_MAP
    used = [name for name in context.params if context.get_parameter_source(name) is source]
    by_name = {parameter.name: key for key, parameter in _names(context.command).items()}
    return (context.meta[_META], sorted(by_name[name] for name in used if name in by_name)) if used else None


def _names(command: click.Command) -> dict[str, click.Parameter]:
    """Names that a file may use, without dashes in front."""
    found: dict[str, click.Parameter] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.expose_value:
            found |= {name.removeprefix("--"): parameter for name in parameter.opts if name.startswith("--")}
        elif isinstance(parameter, click.Argument) and parameter.nargs == -1 and parameter.name:
            found[parameter.name.replace("_", "-")] = parameter
    return found


def _parameter(command: click.Command, key: str) -> str | None:
    parameter = _names(command).get(key.replace("_", "-"))
    return parameter.name if parameter else None


def _value(file: str, key: str, value: Any) -> Any:
    """A list of words stays one for LISTS; elsewhere it is the same as words with commas."""
    if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
        words = [str(each) for each in value]
        return words if key.replace("_", "-") in LISTS else ",".join(words)
    if isinstance(value, str | int | float):
        return value
    raise UsageError(f"{file}: {key} must be a word, a number, true or false")


def _unknown(file: str, key: str, known: Iterable[str]) -> UsageError:
    close = difflib.get_close_matches(key, sorted(set(known)), n=1)
    return UsageError(f"{file}: no option is named {key!r}", f"did you mean {close[0]}?" if close else "")
