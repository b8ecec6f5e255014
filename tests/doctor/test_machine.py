"""Cores, memory, limits, disk, steal: readings in, status out."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrobench.doctor.check import Status
from metrobench.doctor.cores import judge_cores
from metrobench.doctor.disk import check_disk, existing, judge_disk
from metrobench.doctor.limits import check_limits, judge_files, judge_ports
from metrobench.doctor.memory import check_memory, judge_memory, judge_shared
from metrobench.doctor.steal import StealWatch, judge_steal

GB = 1_000_000_000


@pytest.mark.parametrize(
    ("usable", "quota", "status"),
    [
        ([0, 1], None, Status.OK),
        (list(range(16)), None, Status.OK),
        ([0, 1], 2.0, Status.OK),
        ([0, 1, 2, 3], 2.0, Status.WARN),
        ([0, 1], 0.5, Status.FAIL),
        ([0], None, Status.WARN),
    ],
)
def test_cores_and_quota(usable: list[int], quota: float | None, status: Status):
    assert judge_cores(usable, len(usable), quota, 0.1).status is status


def test_the_cores_of_each_part_are_named():
    assert "engine on 0, gateway and client on 1" in judge_cores([0, 1], 2, None, 0.1).finding
    assert "engine on 2, gateway on 3-6, client on 7" in judge_cores([2, 3, 4, 5, 6, 7], 8, None, 0.1).finding
    assert judge_cores([2, 3], 8, None, 0.1).finding.startswith("2 of 8 usable")


@pytest.mark.parametrize(
    ("available", "limit", "embedded", "status"),
    [
        (8 * GB, None, True, Status.OK),
        (2 * GB, None, True, Status.WARN),
        (2 * GB, None, False, Status.OK),
        (8 * GB, 2 * GB, True, Status.WARN),
        (GB // 5, None, False, Status.FAIL),
        (8 * GB, GB // 5, True, Status.FAIL),
    ],
)
def test_memory_is_the_smaller_of_what_is_free_and_what_is_allowed(
    available: int, limit: int | None, embedded: bool, status: Status
):
    assert judge_memory(16 * GB, available, limit, embedded).status is status


@pytest.mark.parametrize(
    ("total", "free", "embedded", "status"),
    [
        (8 * GB, 8 * GB, True, Status.OK),
        (64 << 20, 64 << 20, True, Status.WARN),
        (64 << 20, 64 << 20, False, Status.OK),
        (8 * GB, 6 * GB, False, Status.WARN),
    ],
)
def test_shared_memory(total: int, free: int, embedded: bool, status: Status):
    assert judge_shared(total, free, embedded).status is status


@pytest.mark.parametrize(
    ("hard", "status"),
    [(None, Status.OK), (2064, Status.OK), (2063, Status.WARN), (1024, Status.WARN), (60, Status.FAIL)],
)
def test_open_files_for_1000_sessions(hard: int | None, status: Status):
    check = judge_files(hard, hard, 1000)
    assert check.status is status


def test_the_limit_of_open_files_is_said_in_sessions():
    assert "enough for 480 sessions" in judge_files(1024, 1024, 1000).finding


@pytest.mark.parametrize(
    ("low", "high", "status"), [(32768, 60999, Status.OK), (32768, 34000, Status.WARN), (50, 49, Status.WARN)]
)
def test_ports_for_two_runs_in_a_row(low: int, high: int, status: Status):
    assert judge_ports(low, high, 1000).status is status


@pytest.mark.parametrize(
    ("free", "write", "status"),
    [
        (50 * GB, 0.002, Status.OK),
        (GB // 2, 0.002, Status.WARN),
        (GB // 20, 0.002, Status.FAIL),
        (50 * GB, 0.9, Status.WARN),
    ],
)
def test_disk(free: int, write: float, status: Status):
    assert judge_disk("reports", free, write).status is status


def test_looking_at_the_disk_leaves_nothing_behind(tmp_path: Path):
    [check] = check_disk(tmp_path / "not" / "there")
    assert check.status in (Status.OK, Status.WARN, Status.FAIL)
    assert str(tmp_path) in check.finding
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_cannot_be_written_to(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    [check] = check_disk(tmp_path / "taken")
    assert check.status is Status.FAIL
    assert "--out" in check.advice


def test_the_nearest_folder_on_the_way_up(tmp_path: Path):
    assert existing(tmp_path / "a" / "b") == tmp_path


@pytest.mark.parametrize(("share", "status"), [(0.0, Status.OK), (0.02, Status.WARN), (0.051, Status.FAIL)])
def test_steal_above_the_limit_of_a_run_fails(share: float, status: Status):
    assert judge_steal(share).status is status


def test_the_readers_answer_on_this_machine():
    steal = StealWatch()
    checks = [*check_memory(embedded=True), *check_limits(100), *steal.check()]
    assert [check.name for check in checks] == ["memory", "shared memory", "open files", "ports", "steal"]
