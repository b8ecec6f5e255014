"""A spec survives the way to the worker, and bad values stop before it."""

from pathlib import Path
from typing import Any

import pytest

from metrobench.errors import UsageError
from metrobench.policy import parse_policy
from metrobench.profiles import load_profile
from metrobench.worker.spec import WorkerSpec, decode_spec, encode_spec
from metrobench.worker.turnstile import Order


def spec(**given: Any) -> WorkerSpec:
    settings: dict[str, Any] = {
        "profile": load_profile("minicpm-o"),
        "policy": parse_policy("window:1024", 32),
        "max_sessions": 8,
        "pool_tokens": None,
        "weights": "standin",
        "seed": 1,
        "front_cores": frozenset({1, 2}),
        "engine_cores": frozenset({0}),
        "log": Path("/tmp/somewhere.log"),
    }
    return WorkerSpec(**(settings | given))


def test_there_and_back():
    given = spec(vllm_args={"max_num_batched_tokens": 512, "hf_overrides": {"a": [1, 2]}}, order=Order(8, 0.02))
    assert decode_spec(encode_spec(given)) == given


@pytest.mark.parametrize(
    "bad",
    [
        {"max_sessions": 0},
        {"max_sessions": 10**9},
        {"pool_tokens": 0},
        {"pool_tokens": -5},
        {"weights": "auto"},
        {"weights": "hf:"},
        {"port": 70_000},
        {"seed": -1},
    ],
)
def test_values_out_of_range_are_refused(bad: dict[str, Any]):
    with pytest.raises(UsageError):
        spec(**bad)


def test_what_json_cannot_say_is_refused():
    with pytest.raises(UsageError, match="plain JSON"):
        encode_spec(spec(vllm_args={"x": object()}))


@pytest.mark.parametrize(("asked", "given"), [("window:1000", "window:1024"), ("window:1024", "window:1024")])
def test_windows_are_rounded_up_to_blocks(asked: str, given: str):
    assert str(parse_policy(asked).on_blocks(32)) == given


def test_unbounded_stays_unbounded():
    assert str(parse_policy("unbounded").on_blocks(32)) == "unbounded"
