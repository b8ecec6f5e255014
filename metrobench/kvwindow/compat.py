"""Every difference between the vLLM releases the plugin runs on (0.26 and 0.32), in one place."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from vllm.v1.attention.backend import AttentionBackend, CommonAttentionMetadata

METADATA_FIELDS = frozenset(field.name for field in fields(CommonAttentionMetadata))

STALE = frozenset(
    {
        "_seq_lens_cpu",
        "_num_computed_tokens_cpu",
        "_num_computed_tokens_cache",
        "_token_to_req_indices_cache",
        "rswa_prefix_lens",
        "seq_lens_cpu_upper_bound",
    }
)
"""Metadata that describes lengths before compaction: it must not reach a builder."""

STALE_WHEN_SPLIT = frozenset({"is_prefilling", "req_idx"})
"""Metadata per request, meaningless once requests are cut into rows."""


def known_fields(names: frozenset[str]) -> frozenset[str]:
    """Those of `names` that this release's CommonAttentionMetadata has."""
    return names & METADATA_FIELDS


def host_lengths(lengths: Any) -> dict[str, Any]:
    """The metadata fields that carry lengths on the host: 0.26 has a second, deprecated one that it would sync for."""
    names = known_fields(frozenset({"seq_lens_cpu_upper_bound", "_seq_lens_cpu"}))
    return dict.fromkeys(names, lengths)


def patch_spec_hook() -> None:
    """Below 0.28 nothing calls the backend's `customize_spec`: wrap the layer's own method so that it is called."""
    if hasattr(AttentionBackend, "customize_spec"):
        return
    from vllm.model_executor.layers.attention import Attention

    original = Attention.get_kv_cache_spec
    if getattr(original, "kvwindow", False):
        return

    def get_kv_cache_spec(self: Any, vllm_config: Any) -> Any:
        spec = original(self, vllm_config)
        hook = getattr(self.get_attn_backend(), "customize_spec", None)
        return hook(spec) if hook is not None and spec is not None else spec

    get_kv_cache_spec.kvwindow = True  # type: ignore[attr-defined]
    Attention.get_kv_cache_spec = get_kv_cache_spec


def session_faults(vllm_config: Any) -> str | None:
    """Why streaming sessions would compute wrong results on this release, None where they do not.

    Before 0.31 a session's block hashes keep a token that was discarded, and asynchronous scheduling loses its place
    in the session when a chunk stops.
    """
    if hasattr(AttentionBackend, "customize_spec") and "req_idx" in METADATA_FIELDS:
        return None
    on = [
        flag
        for flag, value in (
            ("enable_prefix_caching", vllm_config.cache_config.enable_prefix_caching),
            ("async_scheduling", vllm_config.scheduler_config.async_scheduling),
        )
        if value
    ]
    return " and ".join(f"{flag}=False" for flag in on) or None


def placeholders(request: Any) -> int:
    """Tokens counted as computed whose sampled value is still on its way (asynchronous scheduling)."""
    return int(getattr(request, "num_output_placeholders", 0))
