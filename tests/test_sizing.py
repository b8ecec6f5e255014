"""The arithmetic of memory: hand-computed figures of known models, and what must hold for any."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metrobench.policy import parse_policy
from metrobench.profiles import Profile, Stage, load_profile, profile_names
from metrobench.sizing import (
    HALF,
    LISTENING,
    SPEAKING,
    kv_bytes_per_minute,
    positions_last,
    session_bytes,
    sessions,
    tokens_per_second,
    window_full_after,
)

H200 = 141_000_000_000
UNBOUNDED = parse_policy("unbounded")
PROFILES = {name: load_profile(name) for name in profile_names()}


def test_minicpm_o_grows_by_31_tokens_a_second_of_speech_and_12_of_silence() -> None:
    profile = PROFILES["minicpm-o"]
    assert tokens_per_second(profile, SPEAKING) == 12 + 20 - 1
    assert tokens_per_second(profile, LISTENING) == 12 + 1 - 1
    assert tokens_per_second(profile, HALF) == 21.5
    assert kv_bytes_per_minute(profile, HALF) == 60 * 21.5 * 144 * 1024


def test_moshi_is_full_after_240_s_and_then_holds_1500_mib() -> None:
    profile = PROFILES["moshi"]
    policy = parse_policy(profile.kv)
    assert tokens_per_second(profile, SPEAKING) == tokens_per_second(profile, LISTENING) == 12.5
    assert window_full_after(profile, policy, HALF) == 240.0
    assert positions_last(profile, SPEAKING) is None
    full = session_bytes(profile, policy)
    assert full is not None
    assert 1500 * 2**20 < full - profile.stage_bytes < 1.04 * 1500 * 2**20, "the window and what is in flight"


def test_voxtral_with_both_windows_full_holds_1020_mib() -> None:
    profile = PROFILES["voxtral-realtime"]
    full = session_bytes(profile, parse_policy(profile.kv))
    assert full is not None
    assert 1.0 < full / ((832 + 187.5) * 2**20) < 1.02
    assert positions_last(profile, SPEAKING) == pytest.approx(2.9 * 3600, rel=0.01)


def test_sessions_by_hand() -> None:
    profile = PROFILES["qwen3-omni"]
    pool = int((H200 * 0.9 - 70.5e9) // (96 * 1024))
    blocks = pool // 16 - 1
    beside = -(-2_400_000 // (96 * 1024 * 16))
    assert sessions(profile, UNBOUNDED, H200, 300.0) == blocks // (300 * 16 // 16 + beside)
    peak = 1 + -(-(1024 - 1 + 64) // 16) + 1
    assert sessions(profile, parse_policy("window:1024+16"), H200, 300.0) == blocks // (peak + beside)


def test_a_gpu_too_small_for_the_weights_holds_nobody() -> None:
    assert sessions(PROFILES["qwen3-omni"], parse_policy("window:1024+16"), 48_000_000_000, 300.0) == 0


def with_stage(profile: Profile, size: int) -> Profile:
    return msgspec.structs.replace(profile, stages={"other": Stage(session_bytes=size)})


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(PROFILES)),
    window=st.integers(1, 20_000),
    gigabytes=st.integers(1, 500),
    stage=st.integers(1, 10**9),
    seconds=st.floats(1.0, 36_000.0),
)
def test_more_memory_holds_more_sessions_and_larger_ones_are_fewer(
    name: str, window: int, gigabytes: int, stage: int, seconds: float
) -> None:
    profile, size = PROFILES[name], gigabytes * 10**9
    for policy in (UNBOUNDED, parse_policy(f"window:{window}+16")):
        plain = sessions(with_stage(profile, 1), policy, size, seconds)
        assert 0 <= plain <= sessions(with_stage(profile, 1), policy, 2 * size, seconds)
        assert sessions(with_stage(profile, stage), policy, size, seconds) <= plain
        assert sessions(with_stage(profile, 1), policy, size, 2 * seconds) <= plain
        larger = replace(policy, window=2 * policy.window)
        assert sessions(with_stage(profile, 1), larger, size, seconds) <= plain


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_all_sessions_at_their_peak_fit_beside_the_weights(name: str) -> None:
    profile = PROFILES[name]
    policy = parse_policy(profile.kv)
    gpu = profile.reference_gpu
    count, each = sessions(profile, policy, gpu.memory_bytes, 300.0), session_bytes(profile, policy)
    assert each is not None
    free = gpu.memory_bytes * gpu.utilisation - profile.decoder.weight_bytes
    assert count * each <= free
    assert (count + 1) * each > 0.95 * free
