"""`metrobench capacity --endpoint` against a server whose capacity is known: one queue, C sessions and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrobench.corpus.manifest import default_clips
from metrobench.guess import ramp_sessions
from metrobench.policy import parse_policy
from metrobench.probe import Setting, Watch
from metrobench.profiles import load_profile
from metrobench.records import read_record
from metrobench.servers import ForeignServer
from tests.cli.command import metrobench
from tests.servers.truth import Script, TruthServer

pytestmark = pytest.mark.realtime

CAPACITY = 30
UNIT = 0.5


@pytest.mark.timeout(900)
def test_the_interval_holds_the_true_capacity(tmp_path: Path) -> None:
    script = Script(unit=UNIT, first_ready=UNIT, latency=0.002, service=UNIT / CAPACITY, fills=False)
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
            "--guess",
            str(CAPACITY),
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


def test_the_ramp_finds_about_the_true_capacity(tmp_path: Path) -> None:
    profile = load_profile("smoke")
    setting = Setting(
        profile=profile,
        policy=parse_policy(profile.kv),
        protocol="realtime",
        budget=profile.budget,
        q=0.01,
        slo=None,
        span=None,
        clips=default_clips(),
        stop_when_failed=True,
        extend_unresolved=True,
    )
    script = Script(unit=UNIT, first_ready=UNIT, latency=0.002, service=UNIT / CAPACITY)
    with TruthServer(script) as server:
        foreign = ForeignServer(server.url, "realtime", can_fill=False, quiet=0.0)
        watch = Watch(interrupted=lambda: False, show=lambda event, kv: None)
        found = ramp_sessions(setting, foreign, 200, 1, tmp_path, watch)
    assert found is not None
    assert 0.6 * CAPACITY <= found <= 1.5 * CAPACITY
