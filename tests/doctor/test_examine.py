from __future__ import annotations

import time
from pathlib import Path
from threading import Event

import pytest

from metrobench.doctor import examine
from metrobench.doctor.check import Check, Status
from metrobench.doctor.examine import Task, perform, tasks
from metrobench.profiles import load_profile


def silent(_: str) -> None:
    pass


def test_a_check_that_finds_something_says_it():
    found = [Check("a", Status.OK, "fine"), Check("b", Status.FAIL, "not")]
    assert perform(Task("a", lambda: found), silent) == found


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(2, "No such file or directory"), PermissionError(13, "Permission denied"), ValueError("x")],
)
def test_what_cannot_be_read_is_not_visible_here(error: Exception):
    def run() -> list[Check]:
        raise error

    [check] = perform(Task("a", run), silent)
    assert (check.status, check.finding.startswith("not visible here")) == (Status.SKIPPED, True)


def test_a_fault_of_our_own_is_not_hidden():
    def run() -> list[Check]:
        raise TypeError("a bug")

    with pytest.raises(TypeError):
        perform(Task("a", run), silent)


def test_a_reader_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(examine, "CLEAN_UP", 0.05)
    never = Event()

    def run() -> list[Check]:
        never.wait(600)
        return []

    begin = time.monotonic()
    [check] = perform(Task("a", run, limit=0.05), silent)
    assert check.status is Status.SKIPPED and "no answer" in check.finding
    assert time.monotonic() - begin < 60
    never.set()


def test_a_check_that_is_told_to_stop_may_still_say_what_it_has():
    stop = Event()

    def run() -> list[Check]:
        stop.wait(600)
        return [Check("a", Status.OK, "half")]

    [check] = perform(Task("a", run, 0.05, stop), silent)
    assert check.finding == "half"


def test_the_quick_examination_does_not_pace(tmp_path: Path):
    timing = load_profile("smoke").timing
    names = [task.name for task in tasks(tmp_path, timing, 100, silent, quick=True)]
    full = [task.name for task in tasks(tmp_path, timing, 100, silent, quick=False)]
    assert "pacing" not in names and "pacing" in full
    assert [name for name in full if name != "pacing"] == names
