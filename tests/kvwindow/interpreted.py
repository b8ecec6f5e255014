"""Triton kernels on the CPU, by Triton's interpreter. A program of its own: in the tests' process vLLM has no Triton.

Prints one JSON object of figures; test_triton.py judges them.
"""

# ruff: noqa: E402
from __future__ import annotations

import json
import os
import sys
import types
from types import SimpleNamespace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


class _Anything(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return SimpleNamespace()


def enable_triton() -> None:
    """The CPU build of vLLM turns Triton off; put the interpreter in its place before anything imports it."""
    module = _Anything("vllm.triton_utils")
    module.triton, module.tl, module.HAS_TRITON = triton, tl, True  # type: ignore[attr-defined]
    module.tldevice = module.libdevice = libdevice  # type: ignore[attr-defined]
    module.__path__, module.__file__ = [], "interpreter"
    import importlib.util

    assert importlib.util.find_spec("vllm")
    sys.modules["vllm.triton_utils"] = module


enable_triton()
torch.set_num_threads(1)

from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.ops.triton_unified_attention import unified_attention

from metrobench.kvwindow import Window
from metrobench.kvwindow.launch import Launcher
from metrobench.kvwindow.rewrite import Rewriter, max_rows

KV_HEADS, HEADS, HEAD = 2, 4, 32


def batch(random: np.random.Generator, window: Window, block: int, requests: int, decode: bool) -> Any:
    """A random batch's metadata, a padded request at its end; tables as vLLM has them, freed places id 0."""
    past = random.integers(0, 4 * (window.window + window.align + window.sinks), requests)
    new = np.ones(requests, int) if decode else random.integers(1, 3 * window.align, requests)
    if not decode:
        new[random.random(requests) < 0.3] = 1
    new[-1], past[-1] = (0, 0) if requests > 1 else (new[-1], past[-1])
    ends = torch.from_numpy((past + new).astype(np.int32))
    starts = torch.from_numpy(np.concatenate([[0], new.cumsum()]).astype(np.int32))
    width = max(1, -(-int(ends.max()) // block))
    ids = torch.from_numpy(random.permutation(requests * width).astype(np.int32) + 1).view(requests, width)
    for request in range(requests):
        low, high = window.dead_blocks(int(past[request]), block)
        ids[request, low : min(high, width)] = 0
    return CommonAttentionMetadata(
        query_start_loc=starts,
        query_start_loc_cpu=starts,
        seq_lens=ends,
        num_reqs=requests,
        num_actual_tokens=int(new.sum()),
        max_query_len=1 if decode else int(new.max()),
        max_seq_len=int(ends.max()),
        block_table_tensor=ids,
        slot_mapping=torch.zeros(int(new.sum()), dtype=torch.int64),
        seq_lens_cpu_upper_bound=ends,
        is_prefilling=torch.zeros(requests, dtype=torch.bool),
    )


def rewriters(window: Window, block: int, requests: int, host: bool) -> tuple[Rewriter, Rewriter]:
    """The NumPy path and the device path, the latter launched by the interpreter on CPU tensors."""
    device, rows = torch.device("cpu"), max_rows(requests, 3 * window.align * requests, window.align)
    numpy, triton_ = (Rewriter(window, block, requests, rows, device, host) for _ in range(2))
    triton_._compactor = None
    triton_._launch = Launcher(window, block, requests, rows, device)
    return numpy, triton_


def differences(one: Any, other: Any, block: int, host: bool) -> list[str]:
    """Fields in which two compact batches differ, columns that no kernel reads left out."""
    names = ["num_reqs", "max_query_len", "max_seq_len", "num_actual_tokens"]
    out = [name for name in names if getattr(one, name) != getattr(other, name)]
    names = ["seq_lens", "query_start_loc"] + (["seq_lens_cpu_upper_bound", "query_start_loc_cpu"] if host else [])
    out += [name for name in names if not torch.equal(getattr(one, name), getattr(other, name))]
    live = torch.arange(one.block_table_tensor.shape[1])[None] < (one.seq_lens[:, None] + block - 1) // block
    if not torch.equal(one.block_table_tensor[live], other.block_table_tensor[live]):
        out.append("block_table_tensor")
    return out


def equal_paths(cases: int) -> dict[str, Any]:
    """The Triton rewrite against the NumPy rewrite."""
    random = np.random.default_rng(0)
    wrong, split = [], 0
    for case in range(cases):
        block = int(random.choice([16, 32]))
        window = _window(random, block, exact=case % 3 == 2)
        requests, decode, host = int(random.integers(1, 6)), case % 4 == 0, case % 2 == 0
        source = batch(random, window, block, requests, decode)
        numpy, device = rewriters(window, block, requests, host)
        one, other = numpy(source), device(source)
        split += one.num_reqs > source.num_reqs
        wrong += [f"case {case} {window}: {name}" for name in differences(one, other, block, host)]
    return {"cases": cases, "split": split, "wrong": wrong}


def _window(random: np.random.Generator, block: int, exact: bool) -> Window:
    if exact:
        return Window(
            int(random.integers(1, 70)), int(random.integers(0, 40)), block * int(random.integers(1, 4)), True
        )
    return Window(*(block * int(random.integers(low, 5)) for low in (1, 0)), block * int(random.integers(1, 4)))


def attention(seed: int, exact: bool) -> float:
    """Largest error of vLLM's Triton kernel over compacted tables; all it must not see is NaN."""
    random = np.random.default_rng(seed)
    block, requests = 16, 3
    window = _window(random, block, exact)
    source = batch(random, window, block, requests, decode=False)
    compact = rewriters(window, block, requests, False)[1](source)
    pages = torch.full((int(source.block_table_tensor.max()) + 1, block, 2, KV_HEADS, HEAD), float("nan"))
    history = []
    for request in range(requests):
        length = int(source.seq_lens[request])
        pairs = torch.from_numpy(random.normal(size=(length, 2, KV_HEADS, HEAD)).astype(np.float32))
        history.append(pairs)
        for position in range(length):
            page = int(source.block_table_tensor[request, position // block])
            if page:
                pages[page, position % block] = pairs[position]
    query = torch.from_numpy(random.normal(size=(source.num_actual_tokens, HEADS, HEAD)).astype(np.float32))
    output = torch.empty_like(query)
    sinks = torch.full((compact.num_reqs,), window.sinks, dtype=torch.int32)
    unified_attention(
        q=query, k=pages[:, :, 0], v=pages[:, :, 1], out=output, cu_seqlens_q=compact.query_start_loc,
        max_seqlen_q=compact.max_query_len, seqused_k=compact.seq_lens, max_seqlen_k=compact.max_seq_len,
        softmax_scale=HEAD**-0.5, causal=True, window_size=(-1, -1), block_table=compact.block_table_tensor,
        softcap=0.0, q_descale=None, k_descale=None, v_descale=None,
        **({"rswa_prefix_lens": sinks, "rswa_window": window.window} if exact else {}),
    )  # fmt: skip
    return _error(query, output, source, history, window)


def _error(query: Any, output: Any, source: Any, history: list[Any], window: Window) -> float:
    worst = 0.0
    for request, pairs in enumerate(history):
        low, high = (int(source.query_start_loc[request + i]) for i in (0, 1))
        end = len(pairs)
        position = torch.arange(end - (high - low), end)[:, None]
        visible = window.visible(position, torch.arange(end)[None])
        key, value = (pairs[:, i].repeat_interleave(HEADS // KV_HEADS, 1) for i in (0, 1))
        score = torch.einsum("nhd,khd->hnk", query[low:high], key) * HEAD**-0.5
        weight = score.masked_fill(~visible[None], float("-inf")).softmax(-1)
        expected = torch.einsum("hnk,khd->nhd", weight, value)
        difference = (output[low:high] - expected).abs().nan_to_num(float("inf"))
        worst = max(worst, float(difference.max()) if difference.numel() else 0.0)
    return worst


if __name__ == "__main__":
    figures = {
        "paths": equal_paths(48),
        "aligned": [attention(seed, exact=False) for seed in range(4)],
        "exact": [attention(seed, exact=True) for seed in range(4)],
    }
    print(json.dumps(figures))
