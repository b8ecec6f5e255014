"""The table of GPUs: found however it is typed, and one with the profiles."""

import pytest

from metrobench.errors import UsageError
from metrobench.gpus import find_gpu, load_gpus
from metrobench.profiles import load_profile, profile_names


def test_every_gpu_has_a_source_and_a_plausible_memory() -> None:
    gpus = load_gpus()
    assert len({gpu.name for gpu in gpus}) == len(gpus) >= 13
    assert all(gpu.source and 1e10 < gpu.memory_bytes < 1e12 for gpu in gpus)


@pytest.mark.parametrize("typed", ["H100", "h100", "A100 80GB", "a100-80gb", "RTX4090", "rtx 4090", "MI300x"])
def test_capitals_blanks_and_dashes_do_not_matter(typed: str) -> None:
    assert find_gpu(typed).name.lower().replace(" ", "") == typed.lower().replace(" ", "").replace("-", "")


def test_an_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        find_gpu("H10")
    assert "H100" in raised.value.hint
    with pytest.raises(UsageError) as raised:
        find_gpu("abacus")
    assert "profiles show" in raised.value.hint


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "smoke"])
def test_a_profiles_reference_gpu_is_that_of_the_table(name: str) -> None:
    own = load_profile(name).reference_gpu
    assert find_gpu(own.name).memory_bytes == own.memory_bytes
