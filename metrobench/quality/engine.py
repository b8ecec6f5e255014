"""The model behind the probe: vLLM's engine core in this process, stepped by hand, so that every arm sees the same
batches. One engine a process."""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metrobench.policy import WINDOW, KvPolicy
from metrobench.quality.model import Speech
from metrobench.worker.arguments import GUARD_SCHEDULER, switch_plugin
from metrobench.worker.core_request import add_request, core_request

BATCH_TOKENS = 256
"""Most tokens of one step on a CPU."""
GPU_BATCH_TOKENS = 2048
ALONE = 32
"""Single prompts side by side."""
AUTO = "auto"
MOST_PLACES = 1024
BAN = -100.0
"""Bias of a token that must not be sampled; the largest the sampler takes."""


@dataclass
class _Open:
    """A request that has not answered yet."""

    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    over: bool = False


class EngineModel:
    """See model.Model. Keeps a session's whole answer: vLLM drops the last sampled token of each input, so one more
    is asked for than is kept."""

    def __init__(
        self, folder: Path, policy: KvPolicy, sessions: int, length: int, block: int, dtype: str, seed: int
    ) -> None:
        """`folder`: a checkpoint with its tokenizer. `length`: most tokens of a session. Needs `preload.load()`."""
        from tokenizers import Tokenizer
        from vllm.engine.arg_utils import EngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor.abstract import Executor

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        switch_plugin(policy)
        cpu = bool(current_platform.is_cpu())
        arguments: dict[str, Any] = {
            "model": str(folder),
            "skip_tokenizer_init": True,
            "dtype": _dtype(cpu) if dtype == AUTO else dtype,
            "enforce_eager": True,  # a captured graph pads its batch: arms would differ by rounding
            "block_size": block,
            "max_model_len": length,
            "max_num_seqs": max(sessions, ALONE),
            "max_num_batched_tokens": max(BATCH_TOKENS if cpu else GPU_BATCH_TOKENS, sessions, ALONE),
            "enable_prefix_caching": False,
            "async_scheduling": False,
            "generation_config": "vllm",
            "scheduler_cls": GUARD_SCHEDULER,
            "seed": seed,
            "disable_log_stats": True,
        }
        if cpu:
            blocks = max(sessions, 1) * (-(-length // block) + 1) + 1
            arguments["num_gpu_blocks_override"] = blocks
            arguments["kv_cache_memory_bytes"] = (blocks + 1) * block * _bytes_per_token(folder)
        if policy.kind == WINDOW:
            arguments["hf_overrides"] = _stock_window(folder, policy.window)
        _register(folder)
        config = EngineArgs(**arguments).create_engine_config()
        self._core = EngineCore(config, Executor.get_class(config), log_stats=False)
        self._open: dict[str, _Open] = {}
        self._names = (f"one-{number}" for number in itertools.count())
        self._bans: dict[tuple[int, ...], dict[int, float]] = {}

    def encode(self, text: str) -> list[int]:
        """See Model.encode."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """See Model.decode."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def specials(self) -> list[int]:
        """See Model.specials."""
        return sorted(number for number, token in self._tokenizer.get_added_tokens_decoder().items() if token.special)

    def go_on(self, inputs: Mapping[str, list[int]], speech: Speech) -> dict[str, list[int]]:
        """See Model.go_on."""
        params = {name: self._params(speech, speech.most + 1, place) for place, name in enumerate(inputs)}
        said = self._run(inputs, params, resumable=True)
        return {name: _kept(opened.tokens, speech) for name, opened in said.items()}

    def close(self, names: Sequence[str]) -> None:
        """See Model.close."""
        self._core.abort_requests(list(names))
        for _ in range(3):
            self._core.step_fn()

    def complete(self, prompts: Sequence[list[int]], speech: Speech) -> list[list[int]]:
        """See Model.complete."""
        inputs = {next(self._names): prompt for prompt in prompts}
        params = {name: self._params(speech, speech.most, place) for place, name in enumerate(inputs)}
        said = self._run(inputs, params, resumable=False)
        return [_kept(said[name].tokens, speech) for name in inputs]

    def log_probabilities(self, prompts: Sequence[list[int]]) -> list[list[float]]:
        """See Model.log_probabilities."""
        inputs = {next(self._names): prompt for prompt in prompts}
        params = dict.fromkeys(inputs, self._params(Speech(1), 1, 0, prompt_logprobs=0))
        said = self._run(inputs, params, resumable=False)
        return [said[name].log_probabilities for name in inputs]

    def _run(self, inputs: Mapping[str, list[int]], params: Mapping[str, Any], resumable: bool) -> dict[str, _Open]:
        for name, tokens in inputs.items():
            self._open[name] = _Open()
            add_request(self._core, core_request(name, tokens, params[name], resumable=resumable))
        while not all(self._open[name].over for name in inputs):
            self._step()
        return {name: self._open.pop(name) for name in inputs}

    def _step(self) -> None:
        outputs, _ = self._core.step_fn()
        for part in (outputs or {}).values():
            for output in part.outputs:
                opened = self._open[output.request_id]
                opened.tokens += output.new_token_ids
                if (found := output.new_prompt_logprobs_tensors) is not None:
                    opened.log_probabilities += found.logprobs[:, 0].tolist()
                opened.over = output.finish_reason is not None

    def _params(self, speech: Speech, most: int, place: int, **options: Any) -> Any:
        """`place`: among those asked at once, each of which draws its own numbers."""
        from vllm import SamplingParams

        bans = self._bans.setdefault(speech.banned, dict.fromkeys(speech.banned, BAN))
        return SamplingParams(
            temperature=speech.temperature,
            seed=speech.seed * MOST_PLACES + place if speech.temperature else None,
            max_tokens=most,
            ignore_eos=True,
            stop_token_ids=list(speech.stop),
            logit_bias=bans or None,
            detokenize=False,
            **options,
        )


def _kept(tokens: list[int], speech: Speech) -> list[int]:
    """What stays of the sampled tokens: neither the token that ended the answer nor one too many."""
    kept = tokens[: speech.most]
    return kept[:-1] if kept and kept[-1] in speech.stop else kept


def _register(folder: Path) -> None:
    """Make vLLM take the model's class as it is: it inspects one known only by name in a new process, for seconds."""
    from vllm.model_executor.models import ModelRegistry

    for architecture in _shape(folder).get("architectures") or ():
        known = ModelRegistry.models.get(architecture)
        if (module := getattr(known, "module_name", None)) is not None:
            made = getattr(importlib.import_module(module), known.class_name)
            ModelRegistry.register_model(architecture, made)


def _shape(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text()))


def _dtype(cpu: bool) -> str:
    """bfloat16 only where the processor has it: emulated it took 7 times as long as float32."""
    import torch

    return "bfloat16" if not cpu or torch.cpu._is_avx512_bf16_supported() else "float32"


def _bytes_per_token(folder: Path) -> int:
    """KV bytes of one token at 4 bytes a value, the widest there is; the memory is only taken as it is written."""
    shape = _shape(folder)
    heads = int(shape.get("num_key_value_heads") or shape["num_attention_heads"])
    width = int(shape.get("head_dim") or shape["hidden_size"] // shape["num_attention_heads"])
    return 2 * 4 * int(shape["num_hidden_layers"]) * heads * width


def _stock_window(folder: Path, window: int) -> dict[str, Any]:
    """vLLM's own sliding window in every layer."""
    layers = int(_shape(folder)["num_hidden_layers"])
    return {
        "sliding_window": window,
        "use_sliding_window": True,
        "max_window_layers": 0,
        "layer_types": ["sliding_attention"] * layers,
    }
