"""`metrobench doctor` as people run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import assert_plain_error, in_process, metrobench


def test_the_verdict_comes_first_all_fits_80_columns_and_nothing_is_left_behind(tmp_path: Path):
    done = metrobench("doctor", "--quick", cwd=tmp_path)
    lines = done.out.splitlines()
    assert done.code in (0, 3)
    assert lines[0].startswith("no reason not to measure here" if done.code == 0 else "not fit to measure")
    assert all(len(line) <= 80 for line in lines)
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_json_lists_the_checks_and_one_that_fails_makes_the_exit_code_3(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    arguments = ["--json", "--max-sessions", "5", "--model", "smoke", "--out", "taken/below"]
    done = metrobench("doctor", *arguments, cwd=tmp_path)
    found = json.loads(done.out)
    assert (done.code, found["sound"], done.err) == (3, False, "")
    assert found["verdict"].startswith("not fit to measure")
    checks = {check["name"]: check for check in found["checks"]}
    assert {"clock", "timer", "cores", "memory", "steal", "vllm", "leftovers"} <= set(checks)
    assert checks["disk"]["status"] == "fail" and "cannot write to" in checks["disk"]["finding"]
    assert checks["pacing"]["figures"]["steps"][0]["sessions"] == 5
    assert found["trusted_sessions"] == checks["pacing"]["figures"]["trusted"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--max-sessions", "0"], "max-sessions"), (["--model", "nope"], "nope"), (["--out", "taken"], "out")],
)
def test_wrong_usage_exits_2(tmp_path: Path, arguments: list[str], words: str):
    (tmp_path / "taken").write_text("")
    assert_plain_error(in_process("doctor", *arguments, cwd=tmp_path), 2, words)
