"""KV policies: one syntax, rounded to blocks, and the arithmetic of a bounded session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.policy import KvPolicy, kv_sessions, parse_policy, peak_blocks


def test_unbounded_has_no_full_state() -> None:
    policy = parse_policy("unbounded")
    assert not policy.bounded
    assert policy.full_tokens == 0
    assert str(policy) == "unbounded"


def test_a_window_is_rounded_up_to_blocks() -> None:
    assert parse_policy("window:1000", 32) == KvPolicy("window", 1024)
    assert str(parse_policy("window:1024", 32)) == "window:1024"


@pytest.mark.parametrize(
    "text", ["", "window", "window:", "window:0", "window:-1", "window:1e3", "bounded", "window:9999999"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_policy(text)


@given(
    window=st.integers(1, 5000),
    sinks=st.integers(0, 200),
    frame=st.integers(1, 100),
    block=st.sampled_from([8, 16, 32, 128]),
)
def test_the_peak_covers_every_place_a_window_can_stand_at(window: int, sinks: int, frame: int, block: int) -> None:
    policy = KvPolicy("window", window, sinks)
    worst = 0
    for total in range(window + sinks + frame, window + sinks + frame + 2 * block):
        first_kept = max(0, total - frame - (window - 1))
        touched = set(range(first_kept // block, -(-total // block))) | set(range(-(-sinks // block)))
        worst = max(worst, len(touched))
    assert worst <= peak_blocks(policy, frame, block)


def test_the_pool_bounds_the_sessions() -> None:
    window = parse_policy("window:1024")
    assert kv_sessions(window, 16 * 67 * 10 + 16, 32, lifetime_tokens=0) == 10
    assert kv_sessions(parse_policy("unbounded"), 16 * 101, 32, lifetime_tokens=160) == 10
    assert kv_sessions(window, 0, 32, lifetime_tokens=0) == 0
