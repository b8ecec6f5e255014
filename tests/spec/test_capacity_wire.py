"""`metrobench capacity --endpoint` against a server whose capacity is known: one queue, C sessions and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrobench.records import read_record
from tests.cli.command import metrobench
from tests.servers.truth import Script, TruthServer

CAPACITY = 30
UNIT = 0.5


@pytest.mark.timeout(900)
def test_the_interval_holds_the_true_capacity(tmp_path: Path) -> None:
    script = Script(unit=UNIT, first_ready=UNIT, latency=0.002, service=UNIT / CAPACITY)
    with TruthServer(script) as server:
        arguments = [
            "--endpoint",
            server.url,
            "--max-sessions",
            "200",
            "--model",
            "smoke",
            "--json",
            "--effort",
            "quick",
            "--out",
            str(tmp_path),
        ]
        done = metrobench("capacity", *arguments, cwd=tmp_path, hang=800.0)
    record = read_record(next(tmp_path.glob("2*")))
    assert record.result is not None
    mscs = record.result["mscs"]
    if mscs["stop"] == "void-twice":
        pytest.skip("this machine is too busy to measure: the search said so")
    assert done.code == 0
    assert mscs["lo"] < 1.03 * CAPACITY
    assert mscs["hi"] >= CAPACITY
    assert mscs["lo"] >= 0.8 * CAPACITY
    assert all(probe.outcome != "passed" for probe in record.probes if probe.sessions >= 1.05 * CAPACITY)
    assert [warning.code for warning in record.warnings if warning.code == "fresh-sessions"]
