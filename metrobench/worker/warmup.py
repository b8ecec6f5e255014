"""Kernels that vLLM's CPU build compiles at first use, compiled once before any worker is forked.

oneDNN compiles a kernel for every number of rows that it meets, 1 to 4 ms each for every matrix. A fresh engine met
nearly all of them in its first seconds of load, which made each run start late and the edge of capacity a matter of
luck; on a GPU vLLM captures its graphs before it serves, for the same reason.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from metrobench.profiles import StandIn

TOKENS = 512
"""Largest number of tokens in a step that is prepared; larger steps are rare, and long anyway."""
ROWS = 64
"""Largest number of sessions that decode in one step that is prepared: half a second; twice as many take two."""
CACHE = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8192"}
"""Room for all of them (oneDNN keeps 1,024 kernels)."""

Matrix = tuple[int, int, int]
"""Outputs and inputs of a linear layer, and the most rows that are put through it in one step."""


def matrices(shape: StandIn) -> list[Matrix]:
    """Those of one layer, each once, and the vocabulary's, which sees one row of each session that decodes."""
    heads, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    found = [
        (heads + 2 * kv, shape.hidden, TOKENS),
        (shape.hidden, heads, TOKENS),
        (2 * shape.intermediate, shape.hidden, TOKENS),
        (shape.hidden, shape.intermediate, TOKENS),
        (shape.vocab, shape.hidden, ROWS),
    ]
    return list(dict.fromkeys(found))


def compile_kernels(wanted: Sequence[Matrix]) -> int:
    """Run each matrix, float32, once for every number of rows; returns how many runs that were, 0 without oneDNN."""
    import torch
    from vllm import _custom_ops as ops
    from vllm.platforms import current_platform

    if not current_platform.is_cpu() or not getattr(ops, "_supports_onednn", False):
        return 0
    for outputs, inputs, rows in wanted:
        handler = ops.create_onednn_mm(torch.zeros(outputs, inputs).t(), 32)
        for count in range(1, rows + 1):
            ops.onednn_mm(handler, torch.zeros(count, inputs), None)
        del handler
    _give_memory_back()
    return sum(rows for *_, rows in wanted)


def _give_memory_back() -> None:
    """What a forked worker finds freed but in use by its parent it must copy, page by page, before it can write."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
