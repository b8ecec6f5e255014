"""`metrobench profiles`, as typed: tables, JSON, one's own file, and wrong input."""

import json
from pathlib import Path

import pytest

from metrobench.profiles import profile_names
from tests.cli.command import assert_plain_error, in_process


def test_the_table_and_its_json_hold_every_profile(tmp_path: Path) -> None:
    done = in_process("profiles", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert all(len(line) <= 80 for line in done.out.splitlines())
    told = json.loads(in_process("profiles", "--json", cwd=tmp_path).out)
    assert [row["name"] for row in told] == profile_names()
    by_name = {line.split()[0]: line.split()[-1] for line in done.out.splitlines() if line}
    assert all(by_name[row["name"]] == str(row["sessions"]) for row in told)


def test_one_profile_on_named_gpus(tmp_path: Path) -> None:
    done = in_process("profiles", "show", "moshi", "--gpu", "h100", "--gpu", "L40S", cwd=tmp_path)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines() if " GB  " in line] == ["H100", "L40S"]
    told = json.loads(in_process("profiles", "show", "moshi", "--gpu", "h100", "--json", cwd=tmp_path).out)
    assert told["profile"]["decoder"]["native_window"] == 3000
    assert [fit["gpu"] for fit in told["sizes"]["gpus"]] == ["H100"]


def test_a_printed_file_is_the_start_of_ones_own(tmp_path: Path) -> None:
    text = in_process("profiles", "show", "minicpm-o", "--toml", cwd=tmp_path).out
    (tmp_path / "mine.toml").write_text(text.replace('name = "minicpm-o"', 'name = "mine"', 1).replace("H200", "attic"))
    done = in_process("profiles", "show", "mine.toml", cwd=tmp_path)
    assert done.code == 0
    assert done.out.startswith("mine: ")
    assert any(line.startswith("attic ") for line in done.out.splitlines()), "its own GPU is in the table"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "mosh"], ["mosh", "did you mean moshi?"]),
        (["show", "no/such.toml"], ["no/such.toml"]),
        (["show"], ["NAME"]),
        (["moshi"], ["moshi", "profiles show NAME"]),
        (["show", "moshi", "--gpu", "H10"], ["H10", "H100"]),
        (["show", "moshi", "--toml", "--json"], ["--toml"]),
        (["--no-such-flag"], ["no-such-flag"]),
    ],
)
def test_wrong_usage_exits_2(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    assert_plain_error(in_process("profiles", *arguments, cwd=tmp_path), 2, *words)


def test_each_wrong_field_of_ones_own_file_has_a_line(tmp_path: Path) -> None:
    text = in_process("profiles", "show", "smoke", "--toml", cwd=tmp_path).out
    (tmp_path / "mine.toml").write_text(text.replace("unit_ms = 500", "unit_ms = 'long'").replace("layers", "layer"))
    done = in_process("profiles", "show", "mine.toml", cwd=tmp_path)
    assert done.code == 2
    assert done.err.splitlines() == [
        "metrobench: profile mine.toml: decoder.layer is unknown, did you mean decoder.layers?",
        "  timing.unit_ms: expected float, got str",
        "  stand_in.layer is unknown, did you mean stand_in.layers?",
    ]


@pytest.mark.parametrize("command", [["profiles"], ["profiles", "show"]])
def test_the_command_explains_itself_in_80_columns(tmp_path: Path, command: list[str]) -> None:
    done = in_process(*command, "--help", cwd=tmp_path)
    assert done.code == 0
    assert all(len(line) <= 80 for line in done.out.splitlines())
