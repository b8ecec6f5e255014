"""Profiles as text: 80 columns, nothing left out, the same figures as the arithmetic."""

import msgspec
import pytest

from metrobench.gpus import Gpu, load_gpus
from metrobench.policy import parse_policy
from metrobench.profiles import load_profile, profile_names
from metrobench.report.profiles import row, show, sizes, table
from metrobench.report.terminal import arithmetic
from metrobench.sizing import sessions

NAMES = profile_names()


def test_the_table_has_each_profile_once_in_80_columns() -> None:
    text = table([row(load_profile(name)) for name in NAMES])
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[1 : len(NAMES) + 1]] == NAMES
    assert all(len(line) <= 80 for line in lines)
    assert "smoke: an invented 0.1 GB GPU" in text


@pytest.mark.parametrize("name", NAMES)
def test_one_profile_fits_80_columns_and_names_every_source(name: str) -> None:
    profile = load_profile(name)
    text = show(profile, sizes(profile, load_gpus()))
    assert all(len(line) <= 80 for line in text.splitlines())
    words = " ".join(text.split())
    for path, source in profile.sources.items():
        assert path in words
        assert " ".join(source.split()) in words
    assert "None" not in words


@pytest.mark.parametrize("name", NAMES)
def test_the_count_is_that_of_a_capacity_report(name: str) -> None:
    profile = load_profile(name)
    policy, gpu = parse_policy(profile.kv), profile.reference_gpu
    count = sessions(profile, policy, gpu.memory_bytes, 300.0)
    found = sizes(profile, [Gpu(gpu.name, gpu.memory_bytes, "")])
    assert row(profile).sessions == found.gpus[0].at_policy == count
    assert f" {count} sessions at {policy}" in arithmetic(profile, policy, 300.0)


def test_other_stages_are_told_beside_the_count() -> None:
    profile = load_profile("minicpm-o")
    assert "each with 381 MiB of other stages" in arithmetic(profile, parse_policy(profile.kv), 300.0)
    assert "stages" not in arithmetic(load_profile("ultravox"), parse_policy("unbounded"), 300.0)


def test_a_gpu_without_room_for_the_weights_says_so() -> None:
    profile = load_profile("qwen3-omni")
    found = sizes(profile, [Gpu("small", 10**10, "")])
    assert not found.gpus[0].weights_fit
    assert show(profile, found).count("no room") == 3


def test_sessions_that_the_positions_do_not_carry_are_not_counted() -> None:
    profile = load_profile("minicpm-o")
    fit = sizes(profile, [Gpu("H200", 141 * 10**9, "")]).gpus[0]
    assert fit.unbounded[0] is not None
    assert fit.unbounded[1] is None, "40,960 positions are used up after 22 minutes of speaking"


def test_a_profile_whose_context_does_not_grow_is_shown() -> None:
    profile = load_profile("smoke")
    timing = msgspec.structs.replace(profile.timing, tokens_in=1, tokens_out_listening=1, tokens_out_speaking=1)
    still = msgspec.structs.replace(profile, timing=timing, kv="unbounded")
    assert "unbounded by default" in show(still, sizes(still, load_gpus()))
