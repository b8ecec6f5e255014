"""Settings from a file: which are taken, which are refused, and who wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from metrobench.cli import config
from metrobench.errors import UsageError


@click.command()
@click.option("--pool-tokens", type=int)
@click.option("--kv")
@click.argument("vllm_args", nargs=-1)
def first(**_: Any) -> None: ...


@click.command()
@click.option("--kv")
@click.option("--yes", is_flag=True)
def second(**_: Any) -> None: ...


COMMANDS = {"first": first, "second": second}


def test_no_file_no_settings(tmp_path: Path) -> None:
    assert config.read_file(tmp_path) is None


def test_pyproject_counts_only_with_a_table_of_ours(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert config.read_file(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text('[tool.metrobench]\nkv = "window:64"\n')
    assert config.read_file(tmp_path) == ("pyproject.toml", {"kv": "window:64"})


def test_a_file_of_its_own_wins_over_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.metrobench]\nkv = "window:64"\n')
    (tmp_path / "metrobench.toml").write_text('kv = "unbounded"\n')
    assert config.read_file(tmp_path) == ("metrobench.toml", {"kv": "unbounded"})


def test_somebody_elses_broken_pyproject_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[[[")
    assert config.read_file(tmp_path) is None


@pytest.mark.parametrize("content", [b"[[[", b"\xff\xfe"])
def test_a_broken_file_of_ours_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrobench.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"metrobench\.toml cannot be read"):
        config.read_file(tmp_path)


def test_a_setting_goes_to_every_command_that_has_the_option() -> None:
    found = config.defaults("f", {"kv": "unbounded", "pool_tokens": 5}, COMMANDS)
    assert found == {"first": {"kv": "unbounded", "pool_tokens": 5}, "second": {"kv": "unbounded"}}


def test_the_table_of_a_command_wins_for_that_command() -> None:
    found = config.defaults("f", {"kv": "unbounded", "second": {"kv": "window:9", "yes": True}}, COMMANDS)
    assert found == {"first": {"kv": "unbounded"}, "second": {"kv": "window:9", "yes": True}}


def test_lists_are_words_with_commas_but_for_the_arguments_of_vllm() -> None:
    found = config.defaults("f", {"kv": ["a", "b"], "vllm-args": ["--x", "1"]}, COMMANDS)
    assert found["first"] == {"kv": "a,b", "vllm_args": ["--x", "1"]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pool-token": 3}, "did you mean pool-tokens"),
        ({"first": {"yes": True}}, "no option is named 'first.yes'"),
        ({"kv": {"a": 1}}, "kv must be a word"),
        ({"kv": [[1]]}, "kv must be a word"),
    ],
)
def test_what_no_command_knows_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.defaults("f", settings, COMMANDS)
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_what_is_typed_wins_over_the_file() -> None:
    seen: dict[str, Any] = {}

    @click.command()
    @click.option("--kv")
    @click.option("--pool-tokens", type=int)
    @click.pass_context
    def command(ctx: click.Context, **given: Any) -> None:
        config.note(ctx, "metrobench.toml")
        seen.update(given, origin=config.origin())

    defaults = config.defaults("f", {"kv": "a", "pool-tokens": "7"}, {"command": command})
    command.main(["--kv", "b"], default_map=defaults["command"], standalone_mode=False)
    assert seen == {"kv": "b", "pool_tokens": 7, "origin": ("metrobench.toml", ["pool-tokens"])}
