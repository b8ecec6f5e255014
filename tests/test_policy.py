"""KV policies: one syntax, rounded to blocks, and the arithmetic of a bounded session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.policy import KvPolicy, kv_sessions, most_in_flight, parse_policy, peak_blocks


def test_unbounded_has_no_full_state() -> None:
    policy = parse_policy("unbounded")
    assert not policy.bounded
    assert policy.full_tokens == 0
    assert str(policy) == "unbounded"


def test_a_window_is_rounded_up_to_blocks() -> None:
    assert parse_policy("window:1000", 32) == KvPolicy("window", 1024)
    assert str(parse_policy("window:1024", 32)) == "window:1024"


@pytest.mark.parametrize(
    ("text", "shown", "full"),
    [
        ("window:1000+5", "window:1024+32", 1056),
        ("window:1024+0", "window:1024+0", 1024),
        ("recycle:1000", "recycle:1000", 1000),
    ],
)
def test_the_figures_in_force_are_shown(text: str, shown: str, full: int) -> None:
    policy = parse_policy(text, 32)
    assert (str(policy), policy.full_tokens, policy.bounded) == (shown, full, True)
    assert parse_policy(str(policy), 32) == policy


def test_a_recycled_context_holds_twice_its_window_at_most() -> None:
    assert parse_policy("recycle:1024").most_tokens == 2048
    assert peak_blocks(parse_policy("recycle:1024"), 64, 32) == 66


def test_what_is_in_flight_is_whole_blocks_and_at_least_a_join_chunk() -> None:
    assert most_in_flight(32, 16) == 64
    assert most_in_flight(100, 32) == 128


@given(window=st.integers(1, 5000), sinks=st.integers(0, 200), block=st.sampled_from([8, 16, 32, 128]))
def test_the_peak_is_the_plugins_own(window: int, sinks: int, block: int) -> None:
    from metrobench.kvwindow import Settings

    policy = KvPolicy("sinks", window, sinks).on_blocks(block)
    in_flight = most_in_flight(32, block)
    assert peak_blocks(policy, in_flight, block) == Settings(window, sinks).on(block).resident_blocks(in_flight, block)


@pytest.mark.parametrize(
    "text",
    [
        "window:1+",
        "window:+1",
        "window:0+16",
        "recycle:0",
        "recycle:1+1",
        "recycle",
        "window:1+9999999",
        "",
        "window",
        "window:",
        "window:0",
        "window:-1",
        "window:1e3",
        "bounded",
        "window:9999999",
    ],
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
    policy = KvPolicy("sinks", window, sinks)
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


def test_what_a_session_takes_beside_its_kv_counts_in_whole_blocks():
    window = parse_policy("window:1024")
    alone = 16 * 67 * 10 + 16
    assert kv_sessions(window, alone, 32, lifetime_tokens=0, beside_tokens=1) == 67 * 10 // 68
    assert kv_sessions(parse_policy("unbounded"), 16 * 101, 32, lifetime_tokens=160, beside_tokens=160) == 5
