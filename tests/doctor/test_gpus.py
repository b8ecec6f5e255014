from __future__ import annotations

import os
from pathlib import Path

import pytest

from metrobench.doctor import gpus
from metrobench.doctor.check import Status
from metrobench.doctor.gpus import Gpu, check_gpus, judge_gpu, parse_gpus

IDLE = "0, GPU-1, NVIDIA H200, 143771, 1, 0, 345, 1980, Enabled, Disabled\n"
SHARED = "0, GPU-1, NVIDIA H200, 143771, 40960, 37, 1980, 1980, Enabled, Disabled\n"
UNSURE = "0, GPU-1, NVIDIA GeForce RTX 3060, 12288, 410, [N/A], [N/A], [N/A], [N/A], [N/A]\n"
HOLDER = "GPU-1, 4711, /usr/bin/python3, 40000\n"


def judged(listed: str, used_by: str = "") -> tuple[Gpu, Status]:
    [gpu] = parse_gpus(listed, used_by)
    return gpu, judge_gpu(gpu).status


def test_an_idle_gpu_is_fine():
    gpu, status = judged(IDLE)
    assert (gpu.memory, gpu.busy, gpu.clock_max, gpu.mig) == (143771 << 20, 0.0, 1.98e9, False)
    assert status is Status.OK


def test_another_program_that_computes_on_it_fails():
    gpu, status = judged(SHARED, HOLDER)
    assert gpu.processes[0].pid == 4711
    assert status is Status.FAIL


def test_another_program_that_only_holds_memory_is_a_warning_with_its_number():
    [gpu] = parse_gpus(SHARED.replace(" 37,", " 0,"), HOLDER)
    check = judge_gpu(gpu)
    assert check.status is Status.WARN
    assert "4711" in check.finding and "4711" in check.advice


def test_memory_in_use_by_nobody_visible_is_a_warning():
    assert judged(SHARED.replace(" 37,", " 0,"))[1] is Status.WARN


def test_what_the_driver_does_not_say_is_no_fault():
    gpu, status = judged(UNSURE)
    assert (gpu.busy, gpu.clock, gpu.persistence, gpu.mig) == (None, None, None, None)
    assert status is Status.OK


@pytest.mark.parametrize(
    "line", [IDLE.replace("Disabled", "Enabled"), IDLE.replace("Enabled, Disabled", "Disabled, Disabled")]
)
def test_instances_and_a_driver_that_unloads_are_warnings(line: str):
    assert judged(line)[1] is Status.WARN


def test_a_name_with_a_comma_and_a_stray_line_are_survived():
    listed = '0, GPU-1, "NVIDIA X, rev 2", 1000, 0, 0, 1, 2, Enabled, Disabled\nwarning: something\n'
    assert [gpu.name for gpu in parse_gpus(listed, "garbage\n")] == ["NVIDIA X, rev 2"]


def scripted(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """An nvidia-smi that does what `body` says."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_program_is_asked_for_gpus_and_for_their_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    answers = f"case $1 in --query-gpu*) printf '{SHARED.strip()}\\n';; *) printf '{HOLDER.strip()}\\n';; esac"
    scripted(tmp_path, monkeypatch, answers)
    [check] = check_gpus()
    assert (check.name, check.status) == ("gpu 0", Status.FAIL)


def test_a_driver_that_does_not_answer_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scripted(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(gpus, "TIMEOUT", 0.2)
    [check] = check_gpus()
    assert check.status is Status.WARN and "did not answer" in check.finding


def test_a_driver_that_fails_is_said_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scripted(tmp_path, monkeypatch, "echo NVIDIA-SMI has failed; exit 9")
    [check] = check_gpus()
    assert check.status is Status.WARN and "NVIDIA-SMI has failed" in check.finding


def test_no_gpu_is_no_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(gpus, "gpu_names", list)
    [check] = check_gpus()
    assert (check.status, check.finding.startswith("none")) == (Status.OK, True)
