"""The CPU time of the cores that a measurement may use, and of no other."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import psutil
import pytest

from metrobench.machine import Spent, cpu_spent


class Times(NamedTuple):
    """One core as Linux shows it."""

    user: float
    idle: float
    iowait: float
    steal: float
    guest: float = 0.0
    guest_nice: float = 0.0


class FewTimes(NamedTuple):
    """One core as a system without steal shows it."""

    user: float
    idle: float


def shows(monkeypatch: pytest.MonkeyPatch, *cores: Any, off: int = 0) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: list(cores))
    monkeypatch.setattr(os, "sysconf", lambda name: len(cores) + off)


def test_what_runs_on_other_cores_does_not_count(monkeypatch: pytest.MonkeyPatch):
    shows(monkeypatch, Times(1.0, 5.0, 0.5, 0.25), Times(100.0, 0.0, 0.0, 50.0), Times(2.0, 4.0, 0.0, 0.0))
    assert cpu_spent({0, 2}) == Spent(busy=3.0, total=12.75, steal=0.25)
    assert cpu_spent() == Spent(busy=103.0, total=162.75, steal=50.25)


def test_the_time_of_a_guest_counts_once(monkeypatch: pytest.MonkeyPatch):
    shows(monkeypatch, Times(3.0, 5.0, 0.0, 0.0, guest=2.0))
    assert cpu_spent({0}) == Spent(busy=3.0, total=8.0, steal=0.0)


def test_steal_that_a_system_does_not_show_is_unknown(monkeypatch: pytest.MonkeyPatch):
    shows(monkeypatch, FewTimes(3.0, 5.0))
    assert cpu_spent() == Spent(busy=3.0, total=8.0, steal=None)


def test_cores_that_are_switched_off_leave_the_whole_machine(monkeypatch: pytest.MonkeyPatch):
    # cores 0 and 2 are there, so that the second in the list is no core 1
    shows(monkeypatch, Times(1.0, 1.0, 0.0, 0.0), Times(2.0, 1.0, 0.0, 0.0), off=2)
    assert cpu_spent({0}).busy == 3.0
