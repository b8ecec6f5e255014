"""vLLM's attention backends with a metadata builder that compacts block tables. The kernels stay vLLM's own.

Registered as overrides of the backends of the same name, so a backend's choice and its name do not change. A layer
that is not full attention passes through untouched.
"""

from __future__ import annotations

import copy
import functools
import importlib
from typing import Any

import torch
from vllm.config import get_layers_from_vllm_config
from vllm.logger import init_logger
from vllm.model_executor.layers.attention import Attention
from vllm.v1.attention.backend import AttentionCGSupport, subclass_attention_backend
from vllm.v1.kv_cache_interface import FullAttentionSpec

from metrobench.kvwindow import compat, refuse, settings
from metrobench.kvwindow.plugin import BACKENDS, class_name
from metrobench.kvwindow.rewrite import Rewriter, max_rows
from metrobench.kvwindow.spec import SinkWindowSpec

logger = init_logger("vllm.kvwindow")


def windowed(spec: Any, backend: str) -> Any:
    """`spec` bounded to the configured window when it is full attention, else `spec` itself."""
    chosen = settings.from_environment()
    if chosen is None or type(spec) is not FullAttentionSpec:
        return spec
    if chosen.exact and backend != "TRITON_ATTN":
        raise ValueError(
            f"kvwindow cannot run here: {settings.VARIABLE} asks for the exact mask, which only the Triton kernel can "
            f"apply, and the attention backend is {backend}: choose --attention-backend TRITON_ATTN or drop `exact`."
        )
    return SinkWindowSpec.from_full(spec, chosen.on(spec.block_size))


def _roomier(vllm_config: Any, rows: int) -> Any:
    """The configuration as the stock builder is to see it: buffers sized by requests must hold rows."""
    roomier = copy.copy(vllm_config)
    roomier.scheduler_config = copy.copy(vllm_config.scheduler_config)
    roomier.scheduler_config.max_num_seqs = max(rows, vllm_config.scheduler_config.max_num_seqs)
    return roomier


def _builder(base: Any, backend: str) -> Any:
    class SinkWindowBuilder(base):
        """The stock builder, fed with compact metadata."""

        @classmethod
        def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> Any:
            support = super().get_cudagraph_support(vllm_config, kv_cache_spec)
            if not isinstance(kv_cache_spec, SinkWindowSpec):
                return support
            # A graph has a fixed number of rows; only single-token decode keeps one row a request.
            return min(support, AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE, key=lambda level: level.value)

        @classmethod
        def get_varlen_cudagraph_max_query_len(cls, vllm_config: Any, kv_cache_spec: Any) -> int | None:
            if isinstance(kv_cache_spec, SinkWindowSpec):
                return None
            longest: int | None = super().get_varlen_cudagraph_max_query_len(vllm_config, kv_cache_spec)
            return longest

        def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any, **kw: Any):
            self._rewriter: Rewriter | None = None
            if not isinstance(kv_cache_spec, SinkWindowSpec):
                super().__init__(kv_cache_spec, layer_names, vllm_config, device, **kw)
                return
            refuse.check_config(vllm_config)
            refuse.check_layers(get_layers_from_vllm_config(vllm_config, Attention, layer_names))
            if flags := compat.session_faults(vllm_config):
                logger.warning_once("kvwindow: streaming sessions are wrong on this vLLM release without %s", flags)
            scheduler, graphs = vllm_config.scheduler_config, vllm_config.compilation_config
            mask = kv_cache_spec.mask.within(vllm_config.model_config.max_model_len, kv_cache_spec.block_size)
            requests = max(scheduler.max_num_seqs, graphs.max_cudagraph_capture_size or 0)
            rows = max_rows(requests, scheduler.max_num_batched_tokens, mask.align)
            super().__init__(kv_cache_spec.as_full(), layer_names, _roomier(vllm_config, rows), device, **kw)
            self.supports_update_block_table = False  # another group's table must be compacted too
            self.supports_draft_decode_metadata_update = False
            host = backend == "FLASHINFER"
            self._rewriter = Rewriter(mask, kv_cache_spec.block_size, requests, rows, torch.device(device), host)
            self._exact = mask.window if mask.exact else None
            if mask.exact:
                self._sinks = torch.full((rows,), mask.sinks, dtype=torch.int32, device=device)
            figures = kv_cache_spec.mask, kv_cache_spec.block_size, backend
            logger.info_once("kvwindow: %s in blocks of %d tokens on %s", *figures)

        def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False, **kw: Any) -> Any:
            if self._rewriter is None:
                return super().build(common_prefix_len, common_attn_metadata, fast_build, **kw)
            refuse.check_batch(common_attn_metadata)
            compact = self._rewriter(common_attn_metadata)
            metadata = super().build(0, compact, fast_build, **kw)
            if self._exact is not None:
                # The Triton kernel's reference-window mask, in compact coordinates, is the exact mask.
                metadata.rswa_prefix_lens = self._sinks[: compact.num_reqs]
                metadata.rswa_window = self._exact
            return metadata

        def use_cascade_attention(self, *args: Any, **kw: Any) -> bool:
            return self._rewriter is None and bool(super().use_cascade_attention(*args, **kw))

    return SinkWindowBuilder


@functools.cache
def wrap(backend: str) -> Any:
    """The windowed class of vLLM's backend `backend`, a key of plugin.BACKENDS."""
    module, _, name = BACKENDS[backend].rpartition(".")
    base = getattr(importlib.import_module(module), name)
    wrapped = subclass_attention_backend("SinkWindow_", base, _builder(base.get_builder_cls(), backend))

    def customize_spec(cls: Any, spec: Any) -> Any:
        stock = getattr(super(wrapped, cls), "customize_spec", None)
        return windowed(stock(spec) if stock else spec, backend)

    wrapped.customize_spec = classmethod(customize_spec)
    # CUDA resolves a backend again by its module and name.
    wrapped.__module__, wrapped.__name__, wrapped.__qualname__ = __name__, class_name(backend), class_name(backend)
    return wrapped


def __getattr__(name: str) -> Any:
    """Windowed backends by name; made on first use, since a backend's module imports on its own platform only."""
    for backend in BACKENDS:
        if name == class_name(backend):
            return wrap(backend)
    raise AttributeError(name)
