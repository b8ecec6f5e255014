"""Tiny random Moshi, Mimi and sentencepiece model for the real `moshi.server`; run in its environment.

usage: make_moshi.py FOLDER
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import sentencepiece
import torch
from moshi.models import loaders
from safetensors.torch import save_file

CARD, TEXT, DIM = 64, 300, 64
PAD, PAD_BIAS = 3, 4.0
"""Token and bias of "no text": about one frame in twelve carries text, as a trained Moshi's silence does."""


def make_tokenizer(folder: Path) -> None:
    """A vocabulary of TEXT pieces from made-up words."""
    consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
    syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
    words = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(2000)]
    (folder / "corpus.txt").write_text("\n".join(" ".join(random.choices(words, k=12)) for _ in range(3000)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "spm"),
        vocab_size=TEXT,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=PAD,
        minloglevel=2,
    )


def make_mimi(folder: Path) -> None:
    """The codec, its shape kept and its widths shrunk, with random code books."""
    transformer = dict(
        loaders._transformer_kwargs,
        d_model=DIM,
        num_heads=2,
        num_layers=1,
        dim_feedforward=128,
        input_dimension=DIM,
        output_dimensions=[DIM],
    )
    config = {
        "sample_rate": 24000,
        "channels": 1,
        "frame_rate": 12.5,
        "seanet": dict(loaders._seanet_kwargs, dimension=DIM, n_filters=4),
        "transformer": transformer,
        "quantizer": {"dimension": 32, "n_q": 8, "bins": CARD, "input_dimension": DIM, "output_dimension": DIM},
    }
    (folder / "mimi.json").write_text(json.dumps(config))
    mimi = loaders.get_mimi(None, json.loads((folder / "mimi.json").read_text()), num_codebooks=8)
    for name, values in mimi.state_dict().items():
        if name.endswith("embedding_sum"):
            values.normal_()
        if name.endswith("cluster_usage"):
            values.fill_(1.0)
    save(mimi.state_dict(), folder / "mimi.safetensors")


def make_lm(folder: Path) -> None:
    """The language model, likewise."""
    shape = dict(
        loaders._lm_kwargs,
        dim=DIM,
        text_card=TEXT,
        n_q=16,
        dep_q=8,
        card=CARD,
        num_heads=2,
        num_layers=2,
        context=250,
        depformer_dim=32,
        depformer_dim_feedforward=64,
        depformer_num_heads=2,
        depformer_num_layers=1,
        bias_proj=True,
    )
    mimi = (folder / "mimi.json").resolve()
    config = dict(shape, model_type="moshi", mimi_config_name=f"file://{mimi}", lm_gen_config={})
    (folder / "config.json").write_text(json.dumps(config))
    model = loaders.get_moshi_lm(None, lm_kwargs=dict(shape), device="cpu", dtype=torch.float32)
    state = model.state_dict()
    for values in state.values():
        if values.is_floating_point() and values.dim() > 1:
            values.normal_(0, 0.05)
    state["text_linear.bias"].zero_()[PAD] = PAD_BIAS
    save(state, folder / "moshi.safetensors")


def save(state: dict[str, torch.Tensor], path: Path) -> None:
    """Write weights."""
    save_file({name: values.detach().clone().contiguous() for name, values in state.items()}, str(path))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    random.seed(0)
    make_tokenizer(target)
    make_mimi(target)
    make_lm(target)
