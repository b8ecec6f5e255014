from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.gate.rules import BOUNDS, default_policy, parse_policy

TEXT = st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers()))


def test_the_default_policy_is_about_capacity_misses_and_collapse() -> None:
    names = [rule.name for rule in default_policy().rules]
    assert names == ["mscs max_drop 15%", "miss_rate max 1%", "collapse none"]


def test_limits_are_read_into_the_units_inside() -> None:
    table = {
        "mscs": {"max_drop": "15%", "min": 40},
        "p99": {"max_rise": "150%"},
        "drift": {"max": "6ms/min"},
        "forecast": {"min": "30m"},
        "collapse": "none",
    }
    limits = [rule.limit for rule in parse_policy(table, "x").rules]
    assert limits == pytest.approx([0.15, 40.0, 1.5, 0.0001, 1800.0, 0.0])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "holds no rule"),
        ({"msc": {"max_drop": "15%"}}, "no rule about 'msc'"),
        ({"mscs": {"max_rise": "15%"}}, "takes no 'max_rise'"),
        ({"mscs": {"max_drop": "150%"}}, "not a rate"),
        ({"mscs": {"max_drop": True}}, "must be a number or a word"),
        ({"mscs": "15%"}, "wants a bound"),
        ({"drift": {"max": "1ms"}}, "not a drift"),
        ({"forecast": {"min": "soon"}}, "not a time"),
        ({"collapse": {"none": False}}, "either true or not there"),
        ({"mscs": {"min": "many"}}, "not a number of sessions"),
    ],
)
def test_a_wrong_rule_is_named(table: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_policy(table, "gate.toml")


@given(st.dictionaries(st.sampled_from([*BOUNDS, "else"]), st.one_of(TEXT, st.dictionaries(st.text(max_size=9), TEXT))))
def test_whatever_stands_in_the_file_becomes_rules_or_a_sentence(table: dict[str, Any]) -> None:
    try:
        rules = parse_policy(table, "gate.toml").rules
    except UsageError as error:
        assert "\n" not in error.message
    else:
        assert all(rule.limit >= 0.0 for rule in rules)
