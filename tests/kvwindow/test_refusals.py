"""What does not go together with a window fails at engine start, with a sentence that says why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metrobench.kvwindow import SCHEDULER, register

from . import models as zoo
from .engine import Engine, EngineError, forked

pytestmark = pytest.mark.engine


def start(path: str, options: dict[str, Any]) -> bool:
    register()
    Engine(path, **options)
    return True


@pytest.mark.parametrize(
    ("family", "text", "options", "sentence"),
    [
        ("llama", "64+32,exact", {}, "exact mask, which only the Triton kernel can apply"),
        ("bloom", "64+32", {}, "uses ALiBi, whose bias depends on distances"),
        (
            "llama",
            "64+32",
            {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}},
            "speculative decoding checks several tokens in one decode row",
        ),
        ("llama", "64+32", {"disable_hybrid_kv_cache_manager": True}, "turns windowed layers back into full attention"),
    ],
)
def test_an_engine_that_cannot_be_windowed_does_not_start(
    family: str, text: str, options: dict[str, Any], sentence: str, models: Path
) -> None:
    path = zoo.make(family, models)
    with pytest.raises(EngineError, match=rf"kvwindow cannot run here: .*{sentence}"):
        forked(start, path, options, env={"KVWINDOW": text})


def test_a_model_without_a_full_attention_layer_does_not_start(models: Path) -> None:
    path = zoo.make("llama", models)
    windows = {"sliding_window": 64, "layer_types": ["sliding_attention"] * 3}
    with pytest.raises(EngineError, match="no layer was bounded"):
        forked(start, path, {"hf_overrides": windows, "scheduler_cls": SCHEDULER}, env={"KVWINDOW": "64+32"})


def test_nothing_is_registered_without_the_variable(models: Path) -> None:
    assert forked(stock_backend, env={"KVWINDOW": ""}) == "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"
    assert forked(stock_backend, env={"KVWINDOW": "64"}) == "metrobench.kvwindow.backends.SinkWindow_CPU_ATTN"


def stock_backend() -> str:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    register()
    register()
    return AttentionBackendEnum.CPU_ATTN.get_path()


def test_a_wrong_variable_is_told_when_the_plugin_loads() -> None:
    with pytest.raises(EngineError, match="ValueError: KVWINDOW='much' is not a window"):
        forked(register, env={"KVWINDOW": "much"})


def config(**changes: Any) -> SimpleNamespace:
    """An engine configuration with one thing changed."""
    parts: dict[str, Any] = {
        "speculative_config": None,
        "kv_transfer_config": None,
        "model_config": {"is_mm_prefix_lm": False, "is_encoder_decoder": False, "rswa_window": None},
        "parallel_config": {"decode_context_parallel_size": 1, "prefill_context_parallel_size": 1, "enable_dbo": False},
        "cache_config": {"kv_sharing_fast_prefill": False, "cache_dtype": "auto"},
        "scheduler_config": {"disable_hybrid_kv_cache_manager": False},
    }
    for name, value in changes.items():
        parts[name] = parts[name] | value if isinstance(value, dict) and parts[name] else value
    return SimpleNamespace(**{k: SimpleNamespace(**v) if isinstance(v, dict) else v for k, v in parts.items()})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"parallel_config": {"decode_context_parallel_size": 2}}, "context parallelism"),
        ({"parallel_config": {"prefill_context_parallel_size": 2}}, "context parallelism"),
        ({"parallel_config": {"enable_dbo": True}}, "dual batch overlap"),
        ({"kv_transfer_config": SimpleNamespace()}, "would drop the sinks"),
        ({"cache_config": {"kv_sharing_fast_prefill": True}}, "kv_sharing_fast_prefill"),
        ({"cache_config": {"cache_dtype": "nvfp4"}}, "kv_cache_dtype=nvfp4"),
        ({"model_config": {"is_mm_prefix_lm": True}}, "both directions inside images"),
        ({"model_config": {"is_encoder_decoder": True}}, "encoder-decoder"),
        ({"model_config": {"rswa_window": 128}}, "reference sliding window"),
    ],
)
def test_each_configuration_is_refused_by_name(changes: dict[str, Any], sentence: str) -> None:
    from metrobench.kvwindow.refuse import check_config

    check_config(config())
    with pytest.raises(ValueError, match=rf"kvwindow cannot run here: .*{sentence}.*\.$"):
        check_config(config(**changes))


@pytest.mark.parametrize("window", [256, (255, 0)])
def test_a_window_in_the_kernel_is_refused(window: Any) -> None:
    from metrobench.kvwindow.refuse import check_layers

    plain = SimpleNamespace(impl=SimpleNamespace(sliding_window=(-1, -1), alibi_slopes=None))
    check_layers({"layer.0": plain, "layer.1": SimpleNamespace(impl=SimpleNamespace(sliding_window=None))})
    with pytest.raises(ValueError, match=r"layer\.1 has a sliding window in its kernel .* mask the sinks away"):
        check_layers({"layer.0": plain, "layer.1": SimpleNamespace(impl=SimpleNamespace(sliding_window=window))})


def test_a_batch_that_is_not_causal_is_refused() -> None:
    from metrobench.kvwindow.refuse import check_batch

    check_batch(SimpleNamespace(causal=True))
    with pytest.raises(ValueError, match="not causal"):
        check_batch(SimpleNamespace(causal=False))


def test_the_plugin_is_an_entry_point() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["vllm.general_plugins"] == {"kvwindow": "metrobench.kvwindow:register"}
