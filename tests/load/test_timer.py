from __future__ import annotations

import os
import select
import time

import pytest

from metrobench.load.timer import DeadlineTimer


def readable(timer: DeadlineTimer, timeout: float) -> bool:
    return bool(select.select([timer.fd], [], [], timeout)[0])


def test_fires_at_the_deadline_and_not_before() -> None:
    timer = DeadlineTimer()
    deadline = time.monotonic() + 0.05
    timer.arm(deadline)
    assert readable(timer, 10.0)
    assert time.monotonic() >= deadline
    timer.close()


def test_deadline_in_the_past_fires_at_once() -> None:
    timer = DeadlineTimer()
    for deadline in (time.monotonic() - 1.0, 0.0):
        timer.arm(deadline)
        assert readable(timer, 10.0)
    timer.close()


def test_arming_again_takes_the_old_deadline_back() -> None:
    timer = DeadlineTimer()
    timer.arm(time.monotonic())
    assert readable(timer, 10.0)
    timer.arm(time.monotonic() + 3600.0)
    assert not readable(timer, 0.0)
    timer.close()


def test_close_releases_the_descriptor() -> None:
    timer = DeadlineTimer()
    fd = timer.fd
    timer.close()
    timer.close()
    with pytest.raises(OSError):
        os.fstat(fd)
