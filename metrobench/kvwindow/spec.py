"""The KV cache spec of a windowed layer and its block manager: sinks pinned, window kept, the rest freed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from vllm.v1.core.kv_cache_utils import resolve_block_hashes
from vllm.v1.core.single_type_kv_cache_manager import SlidingWindowManager
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from vllm.v1.kv_cache_spec_registry import KVCacheSpecRegistry

from metrobench.kvwindow.mask import Window, cdiv


@dataclass(frozen=True, kw_only=True)
class SinkWindowSpec(SlidingWindowSpec):
    """A full-attention layer whose KV is bounded to the sinks and a window (mask.py).

    It is a SlidingWindowSpec because vLLM bounds start-up sizing and admission only for those.
    """

    sink_tokens: int = 0
    align_tokens: int = 1
    exact: bool = False

    @classmethod
    def from_full(cls, spec: FullAttentionSpec, window: Window) -> SinkWindowSpec:
        """`spec` with its KV bounded to `window`."""
        known = {field.name for field in fields(cls)} - {"sliding_window"}
        kept = {field.name: getattr(spec, field.name) for field in fields(spec) if field.name in known}
        return cls(
            **kept,
            sliding_window=window.window,
            sink_tokens=window.sinks,
            align_tokens=window.align,
            exact=window.exact,
        )

    def as_full(self) -> FullAttentionSpec:
        """The full-attention spec this was made from: what metadata builders are given.

        FlashAttention's builder hands the spec's sliding window to the kernel, which would then mask the sinks.
        """
        known = {field.name for field in fields(FullAttentionSpec)} - {"sliding_window", "attention_chunk_size"}
        kept = {field.name: getattr(self, field.name) for field in fields(self) if field.name in known}
        return FullAttentionSpec(**kept)

    @property
    def mask(self) -> Window:
        """The window in tokens."""
        return Window(self.sliding_window, self.sink_tokens, self.align_tokens, self.exact)

    def max_admission_blocks_per_request(self, max_in_flight_tokens: int, max_model_len: int) -> int:
        """Blocks one request can hold: sizes the pool at start and gates admission."""
        resident = self.mask.resident_blocks(max_in_flight_tokens, self.block_size)
        return min(cdiv(max_model_len, self.block_size), resident)

    def is_uniform_with_collection(self, kv_cache_specs: dict[str, Any]) -> bool:
        """Whether every layer has this window."""
        return all(isinstance(spec, SinkWindowSpec) and spec.mask == self.mask for spec in kv_cache_specs.values())


class SinkWindowManager(SlidingWindowManager):
    """Frees the blocks between the sinks and the window as they die; a freed place holds the null block."""

    def __init__(self, kv_cache_spec: SinkWindowSpec, **kwargs: Any) -> None:
        super().__init__(kv_cache_spec, **kwargs)
        mask = kv_cache_spec.mask
        tokens = (mask.window, mask.sinks, mask.align)
        if not mask.exact and any(n % self.block_size for n in tokens):
            raise ValueError(
                f"kvwindow: {mask} is not in whole blocks of {self.block_size} tokens: another layer of this model "
                "changed the block size; write the window in multiples of it"
            )
        self._mask = mask

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """0: admission counts every block; `remove_skipped_blocks` frees."""
        return 0

    def remove_skipped_blocks(self, request_id: str, processed_computed_tokens: int, *_: Any, **__: Any) -> None:
        """Free what no query at position >= `processed_computed_tokens` sees."""
        blocks = self.req_to_blocks.get(request_id)
        if not blocks:
            return
        low, high = self._mask.dead_blocks(processed_computed_tokens, self.block_size)
        freed = []
        for index in range(min(high, len(blocks)) - 1, low - 1, -1):  # backwards, up to what was freed before
            if blocks[index] is self._null_block:
                break
            freed.append(blocks[index])
            blocks[index] = self._null_block
        if freed:
            self.block_pool.free_blocks(freed)

    @classmethod
    def reachable_block_mask(cls, *_: Any, **__: Any) -> None:
        """None: every block may serve a hit, since its KV is a function of its prefix alone."""
        return

    @classmethod
    def find_longest_cache_hit(
        cls,
        block_hashes: Any,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: Any,
        kv_cache_spec: SinkWindowSpec,
        *,
        alignment_tokens: int,
        **_: Any,
    ) -> tuple[tuple[list[Any], ...], int]:
        """Longest prefix whose sinks and window are cached; what lies between is not needed and may be gone."""
        block = kv_cache_spec.block_size
        hashes = resolve_block_hashes(
            block_hashes,
            block_pool.hash_block_size,
            block,
            supports_fine_grained_hash_lookup=cls.supports_fine_grained_hash_lookup,
            alignment_tokens=alignment_tokens,
        )

        def cached(index: int) -> Sequence[Any] | None:
            found: Sequence[Any] | None = block_pool.get_cached_block(hashes[index], kv_cache_group_ids)
            return found

        hit = _longest_hit(cached, max_length // block, kv_cache_spec.mask, block, max(1, alignment_tokens // block))
        length = max(hit, default=-1) + 1
        null = [block_pool.null_block] * len(kv_cache_group_ids)
        groups = [hit.get(index, null) for index in range(length)]
        return tuple([row[g] for row in groups] for g in range(len(kv_cache_group_ids))), length * block


def _longest_hit(cached: Any, limit: int, mask: Window, block: int, unit: int) -> dict[int, Any]:
    """Blocks {index: hit} of the longest usable hit of at most `limit` blocks, a multiple of `unit` blocks long."""
    sinks: dict[int, Any] = {}
    for index in range(min(mask.sink_blocks(block), limit)):
        if not (hit := cached(index)):
            break
        sinks[index] = hit
    if len(sinks) == mask.sink_blocks(block):
        run: dict[int, Any] = {}
        low = limit
        for index in range(limit - 1, len(sinks) - 1, -1):
            if not run and (index + 1) % unit:
                continue
            if not (hit := cached(index)):
                run = {}
                continue
            if not run:
                low = mask.dead_blocks((index + 1) * block, block)[1]
            run[index] = hit
            if index <= low:
                return sinks | run
    usable = len(sinks) // unit * unit
    return {index: hit for index, hit in sinks.items() if index < usable}


def register_spec() -> None:
    """Make the spec and its manager known to vLLM."""
    KVCacheSpecRegistry._ensure_registered()  # a non-empty registry would keep the built-in specs out
    KVCacheSpecRegistry.register(SinkWindowSpec, SinkWindowManager, uniform_type_base_spec=SinkWindowSpec)
