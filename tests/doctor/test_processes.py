from __future__ import annotations

import os

import pytest

from metrobench.doctor import processes
from metrobench.doctor.check import Status
from metrobench.doctor.processes import Busy, Seen, check_leftovers, check_others, judge_leftovers, judge_others

MAKE = [Busy(7, "make", 0.9), Busy(8, "rsync", 0.2)]


@pytest.mark.parametrize(
    ("cores", "embedded", "status"),
    [(0.05, True, Status.OK), (0.2, True, Status.WARN), (0.3, True, Status.FAIL), (0.3, False, Status.WARN)],
)
def test_other_programs_are_judged_as_a_run_would_be(cores: float, embedded: bool, status: Status):
    assert judge_others(cores, MAKE, embedded).status is status


def test_the_busiest_are_named():
    assert "make (pid 7) 0.90, rsync (pid 8) 0.20" in judge_others(1.1, MAKE, True).finding


def test_a_moments_work_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch):
    looks = iter([(1.5, MAKE), (0.01, [])])
    monkeypatch.setattr(processes, "_watch", lambda: next(looks))
    [check] = check_others(embedded=True)
    assert check.status is Status.OK


def test_this_process_is_not_among_the_others():
    [check] = check_others(embedded=False)
    assert all(pid != os.getpid() for pid, _, _ in check.figures["top"])


def table(*rows: tuple[int, int, str, str]) -> dict[int, Seen]:
    return {pid: Seen(pid, parent, name, command, 90.0) for pid, parent, name, command in rows}


SHELL = (20, 1, "bash", "bash")
COMMAND = (30, 20, "metrobench", "python .venv/bin/metrobench capacity")
FORKSERVER = (40, 30, "python", "python -m metrobench.worker.forkserver 5 30 /tmp/x")
ENGINE = (50, 40, "VLLM::EngineCor", "VLLM::EngineCore")
SERVER = (60, 20, "vllm", "vllm serve model")


def test_an_orphan_is_a_leftover_with_the_way_to_end_it():
    check = judge_leftovers(table(SHELL, (40, 1, *FORKSERVER[2:]), ENGINE))
    assert check.status is Status.WARN
    assert check.advice == "kill 40 50"
    assert "1 min 30 s old" in check.finding


def test_a_parent_that_is_gone_makes_an_orphan():
    assert judge_leftovers(table((50, 999, *ENGINE[2:]))).advice == "kill 50"


def test_workers_of_a_running_command_are_its_own():
    check = judge_leftovers(table(SHELL, COMMAND, FORKSERVER, ENGINE))
    assert check.status is Status.WARN
    assert "pid 30" in check.finding and "kill" not in check.advice


def test_a_vllm_server_is_no_leftover():
    check = judge_leftovers(table(SHELL, SERVER, (70, 60, *ENGINE[2:])))
    assert check.status is Status.OK
    assert "vllm (pid 60)" in check.finding


def test_a_mention_of_the_engine_in_an_argument_is_no_engine():
    assert judge_leftovers(table(SHELL, (80, 20, "grep", "grep EngineCore log"))).status is Status.OK


def test_a_circle_of_parents_ends():
    assert judge_leftovers(table((40, 50, *FORKSERVER[2:]), (50, 40, *ENGINE[2:]))).advice == "kill 40 50"


def test_the_reader_answers_on_this_machine():
    assert [check.name for check in check_leftovers()] == ["leftovers"]
