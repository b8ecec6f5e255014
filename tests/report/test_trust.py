"""The checks of the instrument itself."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from metrobench.records import Record
from metrobench.report.stored import open_record
from metrobench.report.trust import BAD, DOUBTFUL, OK, UNKNOWN, Check, checks
from tests.report import made


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return open_record(made.run(tmp_path) / "run.json").record


def check(record: Record, what: str) -> Check:
    return next(each for each in checks(record) if each.what == what)


def test_a_client_past_its_limit_is_bad(record: Record) -> None:
    assert check(record, "client's pace").state == OK
    record.probes[0].verdict["client"]["lag_p99"] = 0.02
    assert check(record, "client's pace").state == BAD
    record.probes[0].verdict["client"]["lag_p99"] = None
    assert check(record, "client's pace").state == UNKNOWN


def test_other_programs_are_doubtful_before_they_are_bad(record: Record) -> None:
    for cores, state in ((0.05, OK), (0.2, DOUBTFUL), (0.3, BAD), (None, UNKNOWN)):
        record.probes[0].verdict["others"] = cores
        assert check(record, "other programs").state == state


def test_a_slow_machine_is_doubtful_at_most(record: Record) -> None:
    record.probes[0].verdict["slowdown"] = 9.0
    assert check(record, "slowest 3 s of a core").state == DOUBTFUL


def test_a_void_run_decides_nothing_and_is_counted(record: Record) -> None:
    void = copy.deepcopy(record.probes[0])
    void.outcome = "void"
    void.verdict["reasons"] = ["client-lag"]
    void.verdict["client"]["lag_p99"] = 5.0
    record.probes.append(void)
    assert check(record, "client's pace").state == OK
    assert check(record, "void runs").seen == "1 of 2 (client too slow)"
    record.probes.pop(0)
    assert check(record, "void runs").state == BAD
    assert check(record, "client's pace").state == BAD


def test_an_endpoint_shows_no_cpu(record: Record) -> None:
    record.probes[0].cpu_shares = {}
    assert check(record, "CPU, in cores").state == UNKNOWN


def test_nothing_measured_has_no_checks(record: Record) -> None:
    record.probes = []
    assert checks(record) == []
