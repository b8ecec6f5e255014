"""Which tokens a successor starts from, and when it starts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metrobench.policy import KvPolicy
from metrobench.worker.rollover import Context, RolloverPlan

LONGEST, FRAME = 256, 10


def planned(policy: KvPolicy, number: int = 1) -> RolloverPlan:
    return RolloverPlan(policy, FRAME, LONGEST, number)


@given(st.lists(st.lists(st.integers(0, 9999), max_size=30), max_size=30), st.integers(1, 50), st.integers(0, 20))
def test_the_sinks_and_the_last_w_of_the_others_are_kept(chunks: list[list[int]], window: int, sinks: int):
    context = Context(KvPolicy("sinks", window, sinks))
    for chunk in chunks:
        context.add(chunk)
    everything = [token for chunk in chunks for token in chunk]
    assert context.kept() == everything[:sinks] + everything[sinks:][-window:]


@given(
    frames=st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), min_size=1, max_size=400),
    window=st.integers(1, 150),
    sinks=st.integers(0, 40),
    recycle=st.booleans(),
    number=st.integers(1, 1000),
)
def test_no_frame_ever_passes_the_limit(
    frames: list[tuple[int, bool, bool]], window: int, sinks: int, recycle: bool, number: int
):
    policy = KvPolicy("recycle", window) if recycle else KvPolicy("sinks", window, sinks)
    plan, total = planned(policy, number), 0
    for tokens, speaking, silence in frames:
        total += tokens + (4 if speaking else 1) - 1
        assert total <= 256
        if plan.due(total, silence):
            total = min(total, policy.full_tokens)
            plan.began_again()


def test_silence_is_used_when_the_limit_is_near():
    plan = planned(KvPolicy("sinks", 64, 16))
    near = 256 - 17
    assert not plan.due(near, silence=False)
    assert plan.due(near, silence=True)
    assert plan.due(256 - 9, silence=False)
    assert not plan.due(150, silence=True)


def test_an_unbounded_session_never_rolls_over():
    plan = planned(KvPolicy("unbounded"))
    assert not any(plan.due(total, silence=True) for total in range(300))


def test_recycled_sessions_do_not_all_roll_over_at_once():
    firsts = [
        next(total for total in range(65, 300) if planned(KvPolicy("recycle", 64), n).due(total, silence=False))
        for n in range(1, 9)
    ]
    assert len(set(firsts)) >= 6
