from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from metrobench.search.trials import plan_trials


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True), st.integers(1, 30))
def test_every_policy_gets_its_trials_and_none_gets_ahead(policies: list[str], trials: int) -> None:
    planned = plan_trials(policies, trials)
    assert [step.number for step in planned] == list(range(1, len(policies) * trials + 1))
    seen: Counter[str] = Counter()
    for step in planned:
        seen[step.policy] += 1
        assert seen[step.policy] == step.repeat
        assert max(seen.values()) - min(seen[policy] for policy in policies) <= 1


def test_rounds_run_forwards_and_backwards() -> None:
    assert [step.policy for step in plan_trials(["a", "b"], 2)] == ["a", "b", "b", "a"]
