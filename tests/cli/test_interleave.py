"""`--interleave A B`: in turn, paired, and judged by the gate."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from metrobench.cli.main import cli
from metrobench.records import Record, read_record
from tests.cli.searches import VirtualRuns

A, B = "ws://127.0.0.1:9/a", "ws://127.0.0.1:9/b"
"""Nobody is there, and nobody is asked."""


@dataclass
class TwoServers(VirtualRuns):
    """Servers of different capacity."""

    second: float = 0.0
    order: list[str] = field(default_factory=list)

    def __call__(self, setting: Any, server: Any, *rest: Any) -> Any:
        self.order.append(server._url)
        first, self.capacity = self.capacity, self.second if server._url == B else self.capacity
        try:
            return super().__call__(setting, server, *rest)
        finally:
            self.capacity = first


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def search(out: Path, *options: str) -> tuple[Result, list[Record]]:
    common = ["--model", "smoke", "--out", str(out), "--guess", "100", "--interleave", A, B]
    done = invoke("capacity", *common, *options)
    return done, [read_record(path) for path in sorted(out.glob("2*/2*"))]


def test_searches_take_turns_and_every_other_pair_begins_with_b(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = TwoServers(100, second=100).install(monkeypatch)
    done, records = search(tmp_path, "--pairs", "2")
    assert done.exit_code == 0, done.output
    assert len(records) == 4
    assert runs.order[:4] == [A, B, A, B]
    second = len(records[0].probes) + len(records[1].probes)
    assert runs.order[second : second + 4] == [B, A, B, A]
    assert [record.seed for record in records] == [1, 1, 2, 2]


def test_the_paired_ratio_is_that_of_the_capacities_and_the_gate_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    TwoServers(100, second=60).install(monkeypatch)
    done, _ = search(tmp_path, "--pairs", "3", "--effort", "standard")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("MSCS B/A"))
    assert float(line.split()[2]) == pytest.approx(0.6, abs=0.03)
    assert line.endswith("3 pairs")
    (folder,) = tmp_path.glob("2*")
    judged = invoke("gate", str(folder), "--format", "json")
    assert judged.exit_code == 1, judged.output
    (found,) = json.loads(judged.stdout)["findings"]
    assert found["test"] == "paired moderated t"


def test_single_runs_are_compared_by_their_latency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    TwoServers(100, second=100).install(monkeypatch)
    done = invoke(
        *("run", "--model", "smoke", "--out", str(tmp_path), "--sessions", "40", "--duration", "20s"),
        *("--interleave", A, B, "--pairs", "2"),
    )
    assert done.exit_code == 0, done.output
    assert "p99 B/A    1.000" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if str(tmp_path) not in line)


def test_a_dry_run_tells_both_sides_and_starts_nothing(tmp_path: Path):
    done, records = search(tmp_path, "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("nothing was started") == 2
    assert not records


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--interleave", A, "window:128"), "not one of each"),
        (("--interleave", A, B, "--endpoint", A), "already names the addresses"),
        (("--interleave", "window:128", "unbounded", "--kv", "window:64"), "already names the policies"),
        (("--interleave", "window:128", "windw:64"), "windw"),
    ],
)
def test_two_sides_that_do_not_go_together_are_refused(tmp_path: Path, options: tuple[str, ...], words: str):
    done = invoke("capacity", "--model", "smoke", "--out", str(tmp_path), *options)
    assert words in str(getattr(done.exception, "message", "")), done.output
    assert not list(tmp_path.iterdir())
