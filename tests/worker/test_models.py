"""The config.json of a model that runs without a checkpoint, and the audio tokens of every profile."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from metrobench.errors import UsageError
from metrobench.profiles import Profile, load_profile, profile_names
from metrobench.worker.arguments import _model
from metrobench.worker.features import Extractor
from tests.worker.test_spec import spec


def config(profile: Profile, weights: str, folder: Path) -> dict[str, Any]:
    model = _model(spec(profile=profile, weights=weights), folder)
    found: dict[str, Any] = json.loads((Path(model) / "config.json").read_text())
    return found


def test_dummy_weights_of_a_mixture_have_its_experts(tmp_path: Path):
    found = config(load_profile("qwen3-omni"), "dummy", tmp_path)
    assert found["architectures"] == ["Qwen3MoeForCausalLM"]
    assert found["model_type"] == "qwen3_moe"
    assert (found["num_experts"], found["num_experts_per_tok"], found["moe_intermediate_size"]) == (128, 8, 768)
    assert (found["num_hidden_layers"], found["hidden_size"], found["num_key_value_heads"]) == (48, 2048, 4)


def test_the_stand_in_of_a_mixture_is_dense(tmp_path: Path):
    found = config(load_profile("qwen3-omni"), "standin", tmp_path)
    assert found["architectures"] == ["Qwen3ForCausalLM"]
    assert "num_experts" not in found
    assert found["max_position_embeddings"] == 65_536


def test_a_mixture_without_experts_is_refused(tmp_path: Path):
    dense = load_profile("smoke")
    decoder = msgspec.structs.replace(dense.decoder, architecture="Qwen3MoeForCausalLM")
    with pytest.raises(UsageError, match=r"decoder\.experts"):
        config(msgspec.structs.replace(dense, decoder=decoder), "dummy", tmp_path)


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_can_be_built_with_dummy_weights(tmp_path: Path, name: str):
    assert config(load_profile(name), "dummy", tmp_path)["vocab_size"] == load_profile(name).decoder.vocab


@pytest.mark.parametrize("name", profile_names())
def test_a_frame_of_every_profile_gives_its_tokens(name: str):
    profile = load_profile(name)
    timing = profile.timing
    samples = round(timing.sample_rate * timing.unit)
    extractor = Extractor(timing.sample_rate, samples, timing.tokens_in, profile.stand_in.vocab)
    noise = (np.random.default_rng(1).standard_normal(samples) * 3000).astype(np.int16)
    unit = extractor.unit(noise, np.zeros(extractor.history, dtype=np.int16))
    assert len(unit.tokens) == timing.tokens_in
    assert all(0 <= token < profile.stand_in.vocab for token in unit.tokens)
    assert unit.speech
