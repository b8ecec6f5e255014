"""The configuration of a tiny Qwen3-ASR, for vLLM with dummy weights; run in an environment with vLLM.

usage: make_qwen3asr.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import Qwen2TokenizerFast, WhisperFeatureExtractor
from transformers.models.qwen3_asr import Qwen3ASRProcessor

END, PAD = "<|im_end|>", "<|endoftext|>"
START_AUDIO, END_AUDIO, AUDIO = "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"
SPECIAL = [PAD, "<|im_start|>", END, START_AUDIO, END_AUDIO, AUDIO]
TEMPLATE = "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}"
TEXT: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 65_536,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "rope_scaling": {"mrope_section": [8, 4, 4], "rope_type": "default", "mrope_interleaved": True},
    "torch_dtype": "float32",
}
ENCODER: dict[str, Any] = {
    "num_mel_bins": 128,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 128,
    "d_model": 64,
    "max_source_positions": 1500,
    "n_window": 50,
    "n_window_infer": 800,
    "conv_chunksize": 500,
    "downsample_hidden_size": 32,
    "output_dim": 128,
    "activation_function": "gelu",
}


def make_tokenizer() -> Any:
    """Single bytes, and the special tokens."""
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    audio = {"audio_token": AUDIO, "audio_bos_token": START_AUDIO, "audio_eos_token": END_AUDIO}
    tokenizer = Qwen2TokenizerFast(
        tokenizer_object=made,
        eos_token=END,
        pad_token=PAD,
        unk_token=None,
        additional_special_tokens=SPECIAL,
        extra_special_tokens=audio,
    )
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def main(folder: Path) -> None:
    """Write tokenizer, processor and configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, features = make_tokenizer(), WhisperFeatureExtractor(feature_size=128)
    tokenizer.save_pretrained(folder)
    features.save_pretrained(folder)
    Qwen3ASRProcessor(feature_extractor=features, tokenizer=tokenizer, chat_template=TEMPLATE).save_pretrained(folder)
    number = tokenizer.convert_tokens_to_ids
    thinker = {
        "audio_config": ENCODER,
        "text_config": TEXT,
        "audio_token_id": number(AUDIO),
        "audio_start_token_id": number(START_AUDIO),
        "user_token_id": 1,
        "model_type": "qwen3_asr_thinker",
    }
    config = {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "torch_dtype": "float32",
        "support_languages": ["English"],
        "thinker_config": thinker,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    ends = {"eos_token_id": [number(END)], "pad_token_id": number(PAD)}
    (folder / "generation_config.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
