"""`metrobench ramp`: what is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import assert_plain_error, in_process

URL = "ws://127.0.0.1:9/v1/realtime"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate", "8"], "--rate '8' is not so many a time"),
        (["--rate", "0/s"], "out of range"),
        (["--hold", "soon"], "--hold 'soon' is not a time"),
        (["--workload", "stedy"], "did you mean steady?"),
        (["--workload", "./no.toml"], "no workload file at ./no.toml"),
        (["--admission", "maybe"], "use none, static:N, kv, aimd or aimd+kv"),
        (["--admission", "aimd", "--endpoint", URL], "--admission is for the embedded worker"),
        (["--order", "deadline"], "use arrival, deadline:K or deadline:K@TIME"),
        (["--order", "deadline:8", "--endpoint", URL], "--order is for the embedded worker"),
        (["--offer", "10000", "--rate", "6/h"], "would end after"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = in_process("ramp", "--offer", "10", *arguments, cwd=tmp_path)
    assert_plain_error(done, 2, words)
    assert not (tmp_path / "reports").exists()


def test_a_broken_workload_file_names_its_field(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\ntitle = "Mine."\n[arrivals]\nrate = "fast"\n')
    done = in_process("ramp", "--offer", "10", "--workload", "mine.toml", cwd=tmp_path)
    assert_plain_error(done, 2, "mine.toml", "arrivals.rate")
