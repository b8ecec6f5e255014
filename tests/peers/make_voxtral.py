"""Tiny random VoxtralRealtimeGeneration in Mistral's format, for vLLM's own server; run in an environment with vLLM.

usage: make_voxtral.py FOLDER
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

SPECIAL, PIECES = 1000, 3000
"""Special tokens, as every checkpoint has them, and pieces of words."""
VOCABULARY = SPECIAL + PIECES
EOS = 2
_CONTROL = """
<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] [IMG]
<pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [ARGS] [CALL_ID]
[THINK] [/THINK] [AUDIO] [BEGIN_AUDIO]
"""
CONTROL = _CONTROL.split()
NAMED = dict(enumerate(CONTROL)) | {32: "[STREAMING_PAD]", 33: "[STREAMING_WORD]"}
STREAMING = {
    "sampling_rate": 16_000,
    "frame_rate": 12.5,
    "audio_encoding_config": {"num_mel_bins": 128, "hop_length": 160, "window_size": 400},
    "chunk_length_s": None,
    "transcription_format": "streaming",
    "transcription_delay_ms": 480,
    "streaming_look_ahead_ms": 2.5,
    "streaming_look_back_ms": 52.5,
    "streaming_n_left_pad_tokens": 32,
}
"""As public re-implementations of Voxtral-Mini-4B-Realtime-2602 have them."""
DECODER: dict[str, Any] = {
    "dim": 128,
    "n_layers": 2,
    "head_dim": 32,
    "hidden_dim": 256,
    "n_heads": 4,
    "n_kv_heads": 1,
    "use_biases": False,
    "causal": True,
    "rope_theta": 1e6,
    "norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
    "model_parallel": 1,
    "tied_embeddings": False,
    "model_max_length": 131_072,
    "max_position_embeddings": 131_072,
    "ada_rms_norm_t_cond": True,
    "ada_rms_norm_t_cond_dim": 32,
    "dtype": "float32",
}
ENCODER: dict[str, Any] = {
    "audio_encoding_args": STREAMING["audio_encoding_config"]
    | {
        "sampling_rate": 16_000,
        "frame_rate": 12.5,
        "chunk_length_s": None,
        "global_log_mel_max": 1.5,
        "transcription_format": "streaming",
    },
    "dim": 64,
    "n_layers": 2,
    "head_dim": 32,
    "hidden_dim": 128,
    "n_heads": 2,
    "n_kv_heads": 2,
    "vocab_size": VOCABULARY,
    "use_biases": True,
    "use_cache": False,
    "rope_theta": 1e6,
    "causal": True,
    "norm_eps": 1e-5,
    "pos_embed": "rope",
    "max_source_positions": None,
    "ffn_type": "swiglu",
    "norm_type": "rms_norm",
    "sliding_window": 750,
}
DOWNSAMPLING = 4
WORDS = 0.85
"""Scale of the rows of words in the output layer: special tokens, which are written as nothing, win most frames, as
[STREAMING_PAD] does in a trained model."""

Weights = dict[str, torch.Tensor]


def make_tokenizer(folder: Path) -> None:
    """The first pieces of a tokenizer that mistral_common ships, with the audio settings of a streaming model."""
    spec = importlib.util.find_spec("mistral_common")
    assert spec is not None and spec.origin is not None
    made = json.loads((Path(spec.origin).parent / "data" / "tekken_240911.json").read_text())
    made["config"].update(
        version="v13", default_vocab_size=VOCABULARY, default_num_special_tokens=SPECIAL, num_vocab_tokens=PIECES
    )
    made["vocab"] = made["vocab"][:PIECES]
    made["special_tokens"] = [
        {"rank": rank, "token_str": NAMED.get(rank, f"<SPECIAL_{rank}>"), "is_control": True} for rank in range(SPECIAL)
    ]
    for key in ("multimodal", "image"):
        made.pop(key, None)
    made["audio"] = STREAMING
    (folder / "tekken.json").write_text(json.dumps(made))


def make_weights() -> Weights:
    """Every layer random, every norm one."""
    weights: Weights = {}
    embedding = "mm_streams_embeddings.embedding_module."
    width, audio = DECODER["dim"], ENCODER["dim"]
    weights[embedding + "tok_embeddings.weight"] = torch.randn(VOCABULARY, width)
    output = torch.randn(VOCABULARY, width)
    output[SPECIAL:] *= WORDS
    output[: EOS + 1] = 0
    weights["output.weight"] = output
    for number in range(DECODER["n_layers"]):
        decoder_layer(weights, f"layers.{number}.")
    weights["norm.weight"] = torch.ones(width)
    linear(weights, embedding + "audio_language_projection.0", width, audio * DOWNSAMPLING)
    linear(weights, embedding + "audio_language_projection.2", width, width)
    whisper = embedding + "whisper_encoder."
    mel = ENCODER["audio_encoding_args"]["num_mel_bins"]
    for place, inputs in enumerate((mel, audio)):
        weights[f"{whisper}conv_layers.{place}.conv.weight"] = torch.randn(audio, inputs, 3) * (3 * inputs) ** -0.5
        weights[f"{whisper}conv_layers.{place}.conv.bias"] = torch.randn(audio) * 0.1
    for number in range(ENCODER["n_layers"]):
        encoder_layer(weights, f"{whisper}transformer.layers.{number}.")
    weights[whisper + "transformer.norm.weight"] = torch.ones(audio)
    return weights


def decoder_layer(weights: Weights, name: str) -> None:
    """A layer of the language model."""
    width, head = DECODER["dim"], DECODER["head_dim"]
    queries, keys = DECODER["n_heads"] * head, DECODER["n_kv_heads"] * head
    for part, rows in (("wq", queries), ("wk", keys), ("wv", keys)):
        linear(weights, f"{name}attention.{part}", rows, width)
    linear(weights, name + "attention.wo", width, queries)
    feed_forward(weights, name, width, DECODER["hidden_dim"])
    inner = DECODER["ada_rms_norm_t_cond_dim"]
    linear(weights, name + "ada_rms_norm_t_cond.0", inner, width)
    linear(weights, name + "ada_rms_norm_t_cond.2", width, inner)


def encoder_layer(weights: Weights, name: str) -> None:
    """A layer of the audio encoder."""
    width, inner = ENCODER["dim"], ENCODER["n_heads"] * ENCODER["head_dim"]
    for part in ("wq", "wk", "wv"):
        linear(weights, f"{name}attention.{part}", inner, width)
    linear(weights, name + "attention.wo", width, inner)
    for part, size in (("wq", inner), ("wv", inner), ("wo", width)):
        weights[f"{name}attention.{part}.bias"] = torch.randn(size) * 0.01
    feed_forward(weights, name, width, ENCODER["hidden_dim"])
    weights[name + "feed_forward.w2.bias"] = torch.randn(width) * 0.01


def feed_forward(weights: Weights, name: str, width: int, hidden: int) -> None:
    """The part that both kinds of layer have, and their norms."""
    linear(weights, name + "feed_forward.w1", hidden, width)
    linear(weights, name + "feed_forward.w2", width, hidden)
    linear(weights, name + "feed_forward.w3", hidden, width)
    for norm in ("attention_norm", "ffn_norm"):
        weights[f"{name}{norm}.weight"] = torch.ones(width)


def linear(weights: Weights, name: str, rows: int, columns: int) -> None:
    """A random matrix."""
    weights[name + ".weight"] = torch.randn(rows, columns) * columns**-0.5


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    make_tokenizer(target)
    shape = DECODER | {
        "multimodal": {
            "whisper_model_args": {"encoder_args": ENCODER, "downsample_args": {"downsample_factor": DOWNSAMPLING}}
        }
    }
    (target / "params.json").write_text(json.dumps(shape))
    save_file(make_weights(), str(target / "consolidated.safetensors"))
