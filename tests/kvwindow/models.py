"""Tiny random models of several families, and their plain forward pass under the window's mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metrobench.kvwindow import Window

VOCABULARY = 256
TEXT = 240
"""Token ids below this are text in every model."""

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
    if family == "qwen2_vl":
        rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}
        text = {key: value for key, value in _SHAPE.items() if key != "head_dim"}
        vision = {"depth": 1, "embed_dim": 32, "hidden_size": 128, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14}
        marks = {"image_token_id": 250, "video_token_id": 251, "vision_start_token_id": 252, "vision_end_token_id": 253}
        config = hf.Qwen2VLConfig(
            text_config=text | {"hidden_size": 128, "rope_parameters": rope}, vision_config=vision, **marks
        )
        return hf.Qwen2VLForConditionalGeneration(config)
    if family == "gemma3":
        layers = ["sliding_attention", "full_attention", "sliding_attention"]
        mixed = {"sliding_window": 96, "layer_types": layers, "query_pre_attn_scalar": 32}
        return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**_SHAPE | mixed))
    if family == "bloom":
        shape = {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 1, "n_head": 2}
        return hf.BloomForCausalLM(hf.BloomConfig(**shape))
    raise ValueError(family)


IMAGE, ROWS, COLUMNS = 250, 3, 4
PICTURE = [252, *[IMAGE] * ROWS * COLUMNS, 253]
"""Tokens of an image of ROWS x COLUMNS patches between its marks; no model samples them in this order."""


def rotary_positions(tokens: list[int]) -> Any:
    """[3, T] int64: time, height and width of each token, by Qwen2-VL's rule for text with pictures."""
    import numpy as np

    out, now, place = np.zeros((3, len(tokens)), np.int64), 0, 0
    while place < len(tokens):
        if tokens[place : place + len(PICTURE)] != PICTURE:
            out[:, place] = now
            now, place = now + 1, place + 1
            continue
        grid = np.indices((1, ROWS, COLUMNS)).reshape(3, -1) + now + 1
        out[:, place] = now
        out[:, place + 1 : place + 1 + ROWS * COLUMNS] = grid
        now = int(grid.max()) + 1
        place += 1 + ROWS * COLUMNS
        out[:, place] = now
        now, place = now + 1, place + 1
    return out


def register_qwen2_vl() -> None:
    """Make vLLM's Qwen2-VL importable without torchvision: its module names it at import, text does not use it.

    Pictures are known by their tokens, since there is no image processor: positions are those of images, pixels none.
    """
    import importlib.machinery
    import sys
    import types

    import torch

    for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.v2"):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__, module.__spec__ = [], importlib.machinery.ModuleSpec(name, None)
    sys.modules["torchvision.transforms.v2"].functional = None  # type: ignore[attr-defined]
    from vllm import ModelRegistry
    from vllm.model_executor.models.qwen2_vl import Qwen2VLForConditionalGeneration

    def positions(self: Any, tokens: list[int], features: Any) -> tuple[Any, int]:
        known = torch.from_numpy(rotary_positions(tokens))
        return known, int(known.max()) + 1 - len(tokens)

    Qwen2VLForConditionalGeneration.get_mrope_input_positions = positions
    ModelRegistry.register_model("Qwen2VLForConditionalGeneration", Qwen2VLForConditionalGeneration)


def log_probabilities(model: Any, tokens: list[int], window: Window | None) -> Any:
    """[T, vocabulary] log-probabilities of a plain forward pass; full attention where `window` is None.

    Layers with a sliding window of their own keep it.
    """
    import torch

    position = torch.arange(len(tokens))
    query, key = position[:, None], position[None]
    mask: Any = _hidden(window.visible(query, key) if window else key <= query)
    if "sliding_attention" in (getattr(model.config, "layer_types", None) or ()):
        own = (key <= query) & (query - key < model.config.sliding_window)
        mask = {"full_attention": mask, "sliding_attention": _hidden(own)}
    positions = position[None]
    if model.config.model_type == "qwen2_vl":
        positions = torch.from_numpy(rotary_positions(tokens))[:, None]
    with torch.no_grad():
        output = model(torch.tensor([tokens]), attention_mask=mask, position_ids=positions)
    return output.logits[0].log_softmax(-1)


def _hidden(visible: Any) -> Any:
    import torch

    return torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)[None, None]


def reference(path: str) -> Any:
    """The model as transformers runs it: eager attention, fp32."""
    import torch
    import transformers as hf

    family = hf.Qwen2VLForConditionalGeneration if path.endswith("qwen2_vl") else hf.AutoModelForCausalLM
    return family.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
