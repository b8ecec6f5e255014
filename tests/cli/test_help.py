"""The help of every command: narrow, complete, in words that a reader knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from metrobench.cli.main import cli
from metrobench.corpus.pattern import TALK


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that name a command and each one below it."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, (*path, name))


ALL = list(_commands(cli))


def _find(path: tuple[str, ...]) -> click.Command:
    found: click.Command = cli
    for name in path:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), name) or found
    return found


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_fits_80_columns(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(cli, [*path, "--help"])
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_says_what_it_takes_and_what_it_does(path: tuple[str, ...]) -> None:
    options = [each for each in _find(path).params if isinstance(each, click.Option)]
    # of a choice the values are the help
    assert [each.name for each in options if not each.help and not isinstance(each.type, click.Choice)] == []
    printed = CliRunner().invoke(cli, [*path, "--help"]).stdout
    assert re.findall(r"INTEGER|FLOAT|RANGE|WHOLE", printed) == []


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_word_where_a_number_belongs_is_called_no_number(path: tuple[str, ...]) -> None:
    command = _find(path)
    numbers = [each for each in command.params if isinstance(each.type, click.IntRange)]
    for each in numbers:
        with pytest.raises(click.BadParameter, match="'many' is not a valid whole number"):
            each.type.convert("many", each, click.Context(command))


@pytest.mark.parametrize(
    ("command", "default"),
    [(each, "paired") for each in ("capacity", "run", "check")]
    + [(each, "half") for each in ("collapse", "ramp", "predict-collapse")],
)
def test_every_talk_pattern_can_be_named_and_chance_is_only_the_default_where_it_counts(
    command: str, default: str
) -> None:
    (option,) = (each for each in _find((command,)).params if each.name == "talk")
    assert isinstance(option.type, click.Choice)
    assert (list(option.type.choices), option.default) == (list(TALK), default)
