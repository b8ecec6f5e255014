"""Kernels that vLLM's CPU build compiles at first use, compiled once before any worker is forked.

oneDNN compiles a kernel for every number of tokens that it meets, 1 to 3 ms each for every matrix of a layer. A fresh
engine met nearly all of them in its first seconds of load, which made each run start late and the edge of capacity a
matter of luck; on a GPU vLLM captures its graphs before it serves, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from metrobench.profiles import StandIn

TOKENS = 512
"""Largest number of tokens in a step that is prepared; larger steps are rare, and long anyway."""
CACHE = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8192"}
"""Room for all of them (oneDNN keeps 1,024 kernels)."""

Matrix = tuple[int, int]
"""Outputs and inputs of a linear layer."""


def matrices(shape: StandIn) -> list[Matrix]:
    """Those of one layer, each once. The vocabulary's is left out: its own work is far longer than its compilation."""
    heads, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    found = [
        (heads + 2 * kv, shape.hidden),
        (shape.hidden, heads),
        (2 * shape.intermediate, shape.hidden),
        (shape.hidden, shape.intermediate),
    ]
    return list(dict.fromkeys(found))


def compile_kernels(wanted: Sequence[Matrix], tokens: int = TOKENS) -> int:
    """Run each matrix, float32, once for every number of tokens; returns how many runs that were, 0 without oneDNN."""
    import torch
    from vllm import _custom_ops as ops
    from vllm.platforms import current_platform

    if not current_platform.is_cpu() or not getattr(ops, "_supports_onednn", False):
        return 0
    for outputs, inputs in wanted:
        handler = ops.create_onednn_mm(torch.zeros(outputs, inputs).t(), 32)
        for count in range(1, tokens + 1):
            ops.onednn_mm(handler, torch.zeros(count, inputs), None)
    return len(wanted) * tokens
