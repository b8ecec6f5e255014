"""Tiny random models of several families, and their plain forward pass under the window's mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metrobench.kvwindow import Window

VOCABULARY = 256

_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 8192,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
    "initializer_range": 0.2,  # large enough that what a query sees changes what it predicts
}


def make(family: str, folder: Path) -> str:
    """Path of a tiny model of `family` with random fp32 weights, made once in `folder`."""
    path = folder / family
    if not path.exists():
        import torch

        torch.manual_seed(7)
        _build(family).to(torch.float32).save_pretrained(path)
    return str(path)


def _build(family: str) -> Any:
    import transformers as hf

    if family == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**_SHAPE))
    if family == "qwen2":
        shape = {key: value for key, value in _SHAPE.items() if key != "head_dim"}
        return hf.Qwen2ForCausalLM(hf.Qwen2Config(**shape | {"hidden_size": 128}))
    if family == "qwen3":
        return hf.Qwen3ForCausalLM(hf.Qwen3Config(**_SHAPE))
    if family == "qwen3_moe":
        experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 1}
        return hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**_SHAPE | experts | {"norm_topk_prob": True}))
    if family == "bloom":
        shape = {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 1, "n_head": 2}
        return hf.BloomForCausalLM(hf.BloomConfig(**shape))
    raise ValueError(family)


def log_probabilities(model: Any, tokens: list[int], window: Window | None) -> Any:
    """[T, vocabulary] log-probabilities of a plain forward pass; full attention where `window` is None."""
    import torch

    position = torch.arange(len(tokens))
    query, key = position[:, None], position[None]
    visible = window.visible(query, key) if window else key <= query
    hidden = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    with torch.no_grad():
        output = model(torch.tensor([tokens]), attention_mask=hidden[None, None], position_ids=position[None])
    return output.logits[0].log_softmax(-1)


def reference(path: str) -> Any:
    """The model as transformers runs it: eager attention, fp32."""
    import torch
    import transformers as hf

    return hf.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
