"""What a stock metadata builder is given in each windowed backend, with a builder that only notes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metrobench.kvwindow import Window, parse
from metrobench.kvwindow.plugin import BACKENDS

from . import models as zoo
from .engine import forked

pytestmark = pytest.mark.engine

BLOCK = 32
ENDS, NEW = [40, 400], [3, 70]
"""Two requests: absolute lengths and, of these, queries."""


def noted(path: str, window: Window) -> dict[str, dict[str, Any]]:
    """By backend what its stock builder was made with and asked to build, in a fork."""
    from vllm.engine.arg_utils import EngineArgs

    arguments = EngineArgs(path, skip_tokenizer_init=True, dtype="float32", block_size=BLOCK, max_model_len=512)
    config = arguments.create_engine_config()
    return {backend: _noted(backend, config, window) for backend in BACKENDS}


def _noted(backend: str, config: Any, window: Window) -> dict[str, Any]:
    import torch
    from vllm.v1.attention.backend import AttentionCGSupport
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    from metrobench.kvwindow.backends import _builder
    from metrobench.kvwindow.spec import SinkWindowSpec

    class Metadata:
        pass

    class Stock:
        made: Any = None
        batch: Any = None

        @classmethod
        def get_cudagraph_support(cls, vllm_config: Any, kv_cache_spec: Any) -> Any:
            return AttentionCGSupport.ALWAYS

        def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: Any) -> None:
            Stock.made = kv_cache_spec, vllm_config.scheduler_config.max_num_seqs

        def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> Any:
            Stock.batch = common_prefix_len, common_attn_metadata
            return Metadata()

    full = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=16, dtype=torch.float32)
    spec = SinkWindowSpec.from_full(full, window)
    builder_class = _builder(Stock, backend)
    builder = builder_class(spec, [], config, torch.device("cpu"))
    metadata = builder.build(64, _batch())
    made, rows = Stock.made
    prefix, batch = Stock.batch
    return {
        "spec": type(made).__name__,
        "window": made.sliding_window,
        "rows": rows,
        "graphs": builder_class.get_cudagraph_support(config, spec).name,
        "others' graphs": builder_class.get_cudagraph_support(config, full).name,
        "prefix": prefix,
        "lengths": batch.seq_lens.tolist(),
        "starts": batch.query_start_loc.tolist(),
        "sinks": getattr(metadata, "rswa_prefix_lens", torch.empty(0)).tolist(),
        "exact": getattr(metadata, "rswa_window", None),
    }


def _batch() -> Any:
    import torch
    from vllm.v1.attention.backend import CommonAttentionMetadata

    starts = torch.tensor([0, NEW[0], sum(NEW)], dtype=torch.int32)
    ends = torch.tensor(ENDS, dtype=torch.int32)
    return CommonAttentionMetadata(
        query_start_loc=starts,
        query_start_loc_cpu=starts,
        seq_lens=ends,
        num_reqs=2,
        num_actual_tokens=sum(NEW),
        max_query_len=max(NEW),
        max_seq_len=max(ENDS),
        block_table_tensor=torch.arange(32, dtype=torch.int32).view(2, 16),
        slot_mapping=torch.zeros(sum(NEW), dtype=torch.int64),
        seq_lens_cpu_upper_bound=ends,
    )


def test_no_builder_is_told_of_a_window_and_all_get_the_compact_batch(models: Path) -> None:
    """A builder that saw the window would hand it to the kernel, which would mask the sinks (FlashAttention does)."""
    found = forked(noted, zoo.make("llama", models), parse("128+64").on(BLOCK), env={"KVWINDOW": "128+64"})
    assert list(found) == list(BACKENDS)
    for seen in found.values():
        assert (seen["spec"], seen["window"]) == ("FullAttentionSpec", None)
        assert (seen["graphs"], seen["others' graphs"]) == ("UNIFORM_SINGLE_TOKEN_DECODE", "ALWAYS")
        assert seen["prefix"] == 0
        # the second request's queries 330..399 lie in three multiples of 32; the tokens before 192, 224, 256 are out
        assert seen["starts"] == [0, 3, 3 + 22, 3 + 54, 3 + 70]
        assert seen["lengths"] == [40, 352 - 128, 384 - 160, 400 - 192]
        assert seen["rows"] >= 4
        assert seen["exact"] is None


def test_the_exact_mask_is_told_to_the_kernel_row_by_row(models: Path) -> None:
    found = forked(noted, zoo.make("llama", models), parse("100+5,exact").on(BLOCK), env={"KVWINDOW": "100+5,exact"})
    seen = found["TRITON_ATTN"]
    assert (seen["spec"], seen["window"], seen["exact"]) == ("FullAttentionSpec", None, 100)
    # queries 330..399 lie in two multiples of 128; of each the window of the first query starts in block 7 and 8
    assert seen["starts"] == [0, 3, 3 + 54, 3 + 70]
    assert seen["lengths"] == [40, 384 - 6 * 32, 400 - 7 * 32]
    assert seen["sinks"] == [5, 5, 5]
