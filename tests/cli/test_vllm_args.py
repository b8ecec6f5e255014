"""vLLM's arguments after `--`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.cli.vllm_args import parse_vllm
from metrobench.errors import UsageError


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], {}),
        (["--max-num-batched-tokens", "4096"], {"max_num_batched_tokens": 4096}),
        (["--dtype=bfloat16", "--enforce-eager"], {"dtype": "bfloat16", "enforce_eager": True}),
        (["--no-async-scheduling", "--swap-space", "0.5"], {"async_scheduling": False, "swap_space": 0.5}),
        (["--hf-overrides", '{"a": 1}'], {"hf_overrides": {"a": 1}}),
        (["--compilation-config.cudagraph_mode", "NONE"], {"compilation_config": {"cudagraph_mode": "NONE"}}),
        (["--x.a", "1", "--x.b", "2"], {"x": {"a": 1, "b": 2}}),
        (["--kv-cache-dtype="], {"kv_cache_dtype": ""}),
    ],
)
def test_arguments_become_names_and_values(words: list[str], found: dict[str, Any]) -> None:
    assert parse_vllm(words) == found


@pytest.mark.parametrize(
    "words",
    [["stray"], ["--a", "1", "stray"], ["--model", "x"], ["--port=1"], ["--"], ["--a b"], ["--x", "1", "--x.a", "2"]],
)
def test_what_cannot_be_meant_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_vllm(words)


@given(st.lists(st.text(max_size=12) | st.text(alphabet="-=.ab1", max_size=8), max_size=6))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    try:
        found = parse_vllm(words)
    except UsageError:
        return
    assert all(name.isidentifier() for name in found)
