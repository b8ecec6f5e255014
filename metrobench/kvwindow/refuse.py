"""What the plugin does not run with, and why. Every refusal is a ValueError with one sentence, at engine start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_KV_DTYPES = ("auto", "float16", "bfloat16", "float32", "fp8", "fp8_e4m3", "fp8_e5m2")


def _config_faults(config: Any) -> Iterable[tuple[bool, str]]:
    model, parallel, cache = config.model_config, config.parallel_config, config.cache_config
    context = getattr(parallel, "prefill_context_parallel_size", 1), parallel.decode_context_parallel_size
    yield (
        config.speculative_config is not None,
        ("speculative decoding checks several tokens in one decode row, and such a row can straddle a window step"),
    )
    yield (
        max(context) > 1,
        ("context parallelism spreads a sequence over ranks, and a compact block table names blocks of one rank"),
    )
    yield (
        config.kv_transfer_config is not None,
        ("a KV connector treats the layer as a plain sliding window and would drop the sinks"),
    )
    yield (
        bool(config.scheduler_config.disable_hybrid_kv_cache_manager),
        ("disable_hybrid_kv_cache_manager turns windowed layers back into full attention"),
    )
    yield (
        bool(getattr(parallel, "enable_dbo", False) or getattr(parallel, "ubatch_size", 0) > 1),
        ("dual batch overlap cuts a batch after its metadata was made"),
    )
    yield bool(cache.kv_sharing_fast_prefill), "kv_sharing_fast_prefill changes the batch after its metadata was made"
    yield bool(model.is_mm_prefix_lm), "the model attends in both directions inside images, the window is causal"
    yield bool(model.is_encoder_decoder), "an encoder-decoder model has no growing decoder context to bound"
    yield getattr(model, "rswa_window", None) is not None, "the model brings its own reference sliding window"
    yield (
        cache.cache_dtype not in _KV_DTYPES,
        (f"kv_cache_dtype={cache.cache_dtype} packs blocks in a way that was not tested with a compact block table"),
    )


def _layer_faults(name: str, layer: Any) -> Iterable[tuple[bool, str]]:
    impl = layer.impl
    window = getattr(impl, "sliding_window", None)
    yield (
        getattr(impl, "alibi_slopes", None) is not None,
        (f"layer {name} uses ALiBi, whose bias depends on distances that a compact block table shortens"),
    )
    yield bool(getattr(layer, "use_alibi_sqrt", False)), f"layer {name} uses ALiBi"
    yield (
        window not in (None, -1, (-1, -1)),
        (f"layer {name} has a sliding window in its kernel ({window}), which would mask the sinks away"),
    )
    yield getattr(impl, "chunk_lookback", -1) not in (None, -1), f"layer {name} attends in chunks in its kernel"


def _raise(faults: Iterable[tuple[bool, str]]) -> None:
    for present, sentence in faults:
        if present:
            raise ValueError(f"kvwindow cannot run here: {sentence}.")


def check_config(vllm_config: Any) -> None:
    """Raises ValueError when the engine's configuration and the window do not go together."""
    _raise(_config_faults(vllm_config))


def check_layers(layers: dict[str, Any]) -> None:
    """Raises ValueError when a windowed layer's kernel adds a term of its own that depends on positions."""
    for name, layer in layers.items():
        _raise(_layer_faults(name, layer))


def check_batch(batch: Any) -> None:
    """Raises ValueError when a batch is not plain causal attention."""
    if batch.causal is not True:
        raise ValueError("kvwindow cannot run here: the batch is not causal, and the window is.")
