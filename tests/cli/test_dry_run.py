"""`--dry-run` says what would happen, and nothing happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metrobench.cli.main import cli

SEARCH = ["capacity", "--model", "smoke"]
RUN = ["run", "--model", "smoke", "--sessions", "8"]
RAMP = ["ramp", "--model", "smoke", "--offer", "40", "--rate", "2/s", "--hold", "10s"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--dry-run"])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", [SEARCH, RUN, RAMP])
def test_nothing_is_written_and_all_fits_80_columns(tmp_path: Path, command: list[str]):
    done = invoke(*command)
    assert done.exit_code == 0
    assert "nothing was started" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert list(tmp_path.iterdir()) == []


def test_a_search_says_its_sessions_runs_and_times():
    found = json.loads(invoke(*SEARCH, "--guess", "50", "--max-sessions", "200", "--json").stdout)
    assert found["dry_run"] is True
    assert (found["most_sessions"], found["about_sessions"], found["span"]) == (200, 50, 15.0)
    assert found["runs"]["few"] <= found["runs"]["many"] <= found["runs"]["most"]
    assert found["few_seconds"] == pytest.approx(found["before_seconds"] + found["runs"]["few"] * found["run_seconds"])
    assert found["run_seconds"] > found["span"] + found["cut"]


def test_one_run_is_one_run():
    found = json.loads(invoke(*RUN, "--duration", "2m", "--json").stdout)
    assert found["runs"] == {"few": 1, "many": 1, "most": 1}
    assert (found["sessions"], found["span"]) == ("8", 120.0)


def test_an_open_system_tells_who_comes_and_how_long_it_takes():
    found = json.loads(invoke(*RAMP, "--json").stdout)
    assert (found["command"], found["most_sessions"], found["runs"]["most"]) == ("ramp", 40, 1)
    # 40 arrivals at 2/s, a second to join, 10 s of talk
    assert 20.0 < found["span"] < 50.0
    assert found["run_seconds"] > found["span"]
    assert "40 come; at most" in found["sessions"]


def test_the_time_allowed_bounds_the_times_told():
    found = json.loads(invoke(*SEARCH, "--max-time", "2m", "--json").stdout)
    assert max(found["few_seconds"], found["many_seconds"], found["most_seconds"]) <= 120.0


def test_each_policy_is_told_with_its_share_of_the_time():
    found = json.loads(invoke(*SEARCH, "--kv", "unbounded,window:128", "--max-time", "4m", "--json").stdout)
    assert [each["max_time"] for each in found] == [120.0, 120.0]
    assert [each["kv"].split(":")[0] for each in found] == ["unbounded", "window"]


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("ws://127.0.0.1:9/x", [], "not needed"),
        ("ws://192.0.2.7:9/x", [], "will be asked for"),
        ("ws://192.0.2.7:9/x", ["--yes"], "given by --yes"),
        ("ws://no-such-host.invalid/x", [], "cannot be found"),
    ],
)
def test_whether_the_owner_of_the_server_will_be_asked_is_said(url: str, more: list[str], words: str):
    assert words in " ".join(invoke(*SEARCH, "--endpoint", url, *more).stdout.split())


def test_a_duration_that_is_too_short_and_a_guess_that_is_too_large_are_said_on_stderr():
    done = invoke(*SEARCH, "--duration", "3s", "--guess", "500", "--max-sessions", "100")
    assert done.stderr.splitlines() == [
        "--guess 500 lowered to --max-sessions 100",
        "--duration 3s raised to 15 s, the least that may be judged",
    ]


def test_a_duration_that_only_meets_whole_frames_is_not_worth_a_word():
    done = invoke(*RUN, "--duration", "20100ms")
    assert done.stderr == ""


def test_wrong_options_are_refused_as_ever():
    assert invoke(*SEARCH, "--budget", "0").exit_code != 0
