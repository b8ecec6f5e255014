from __future__ import annotations

from pathlib import Path

import pytest

from metrobench.doctor.cgroup import cpu_period, cpu_quota, memory_limit


def tree(root: Path, membership: str, **files: str) -> Path:
    """A root folder with /proc/self/cgroup and files below /sys/fs/cgroup (`__` stands for a slash)."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(membership)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def v2(root: Path, **files: str) -> Path:
    return tree(root, "0::/pod/box\n", **{name.replace("DOT", "."): text for name, text in files.items()})


def test_version_2_quota_and_memory(tmp_path: Path):
    root = v2(tmp_path, pod__box__cpuDOTmax="150000 100000\n", pod__box__memoryDOTmax="2000000000\n")
    assert (cpu_quota(root), cpu_period(root), memory_limit(root)) == (1.5, 0.1, 2_000_000_000)


def test_the_tightest_group_on_the_way_up_counts(tmp_path: Path):
    root = v2(tmp_path, pod__box__cpuDOTmax="max 100000", pod__cpuDOTmax="50000 100000", cpuDOTmax="400000 100000")
    assert cpu_quota(root) == 0.5


def test_no_limit_is_none(tmp_path: Path):
    root = v2(tmp_path, pod__box__cpuDOTmax="max 100000", pod__box__memoryDOTmax="max")
    assert (cpu_quota(root), memory_limit(root)) == (None, None)


def test_a_container_that_sees_only_its_own_group_finds_it_at_the_top(tmp_path: Path):
    root = tree(tmp_path, "0::/../../elsewhere\n", **{"cpu.max": "200000 100000"})
    assert cpu_quota(root) == 2.0


def test_version_1_quota_and_memory(tmp_path: Path):
    membership = "4:cpu,cpuacct:/docker/abc\n9:memory:/docker/abc\n1:pids:/docker/abc\n0::/\n"
    files = {
        "cpu,cpuacct__docker__abc__cpu.cfs_quota_us": "250000",
        "cpu,cpuacct__docker__abc__cpu.cfs_period_us": "50000",
        "memory__docker__abc__memory.limit_in_bytes": "1000000000",
        "memory__memory.limit_in_bytes": "9223372036854771712",
    }
    root = tree(tmp_path, membership, **files)
    assert (cpu_quota(root), cpu_period(root), memory_limit(root)) == (5.0, 0.05, 1_000_000_000)


def test_version_1_without_limits(tmp_path: Path):
    files = {
        "cpu__cpu.cfs_quota_us": "-1",
        "cpu__cpu.cfs_period_us": "100000",
        "memory__memory.limit_in_bytes": "9223372036854771712",
    }
    root = tree(tmp_path, "2:cpu:/\n3:memory:/\n", **files)
    assert (cpu_quota(root), memory_limit(root)) == (None, None)


@pytest.mark.parametrize("membership", ["", "0::/\n"])
def test_a_system_that_shows_nothing_has_no_limit(tmp_path: Path, membership: str):
    root = tree(tmp_path, membership)
    assert (cpu_quota(root), memory_limit(root)) == (None, None)


def test_no_proc_at_all(tmp_path: Path):
    assert (cpu_quota(tmp_path), memory_limit(tmp_path)) == (None, None)
