"""What vLLM is asked to be: a worker's spec as engine arguments, and the model's shape where there is no checkpoint."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from metrobench.errors import UsageError
from metrobench.policy import SINKS, WINDOW, KvPolicy, most_in_flight, peak_blocks
from metrobench.profiles import Decoder, StandIn
from metrobench.resources import cache_folder
from metrobench.worker.spec import HUB, STANDIN, WorkerSpec

NULL_BLOCKS = 1
"""vLLM keeps one block of the pool for itself."""
BATCH_TOKENS = 2048
"""Most tokens of one step, where the pool is large."""
PLUGIN, PLUGIN_VARIABLE = "kvwindow", "KVWINDOW"
GUARD_SCHEDULER = "metrobench.kvwindow.scheduler.GuardScheduler"
SESSION_SCHEDULER = "metrobench.worker.scheduler.SessionScheduler"
SLOW_SCHEDULER, SLOW_VARIABLE = "metrobench.worker.slow.SlowScheduler", "METROBENCH_SLOW"
STOCK_SCHEDULER = "vllm.v1.core.sched.scheduler.Scheduler"
CPU_WORKER = "metrobench.worker.warm_worker.WarmWorker"

MIXTURE = "Qwen3MoeForCausalLM"
"""The one architecture here whose layers are mixtures of experts."""
_MODEL_TYPES = {
    "Qwen3ForCausalLM": "qwen3",
    "Qwen2ForCausalLM": "qwen2",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    MIXTURE: "qwen3_moe",
}


def engine_arguments(spec: WorkerSpec, folder: Path) -> dict[str, Any]:
    """AsyncEngineArgs for a spec, by name. Where there is no checkpoint the model's config.json goes into `folder`."""
    cpu = _on_cpu()
    block = int(spec.vllm_args.get("block_size") or _block_size(spec, cpu))
    arguments: dict[str, Any] = {
        "model": _model(spec, folder),
        "served_model_name": spec.profile.name,
        "block_size": block,
        "max_model_len": _positions(spec, block),
        "max_num_seqs": spec.max_sessions,
        "max_num_batched_tokens": _batch_tokens(spec, block),
        "long_prefill_token_threshold": in_flight(spec, block),
        "enable_prefix_caching": False,
        "async_scheduling": False,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "seed": spec.seed % 2**31,
        "disable_log_stats": True,
    }
    if not spec.weights.startswith(HUB):
        arguments["load_format"] = "dummy"
    if cpu:
        arguments |= {"enforce_eager": True, "dtype": "float32" if spec.stand_in else _cpu_dtype()}
        arguments["worker_cls"] = CPU_WORKER
    else:
        arguments["compilation_config"] = {"cudagraph_mode": "FULL_AND_PIECEWISE"}
    pool = pool_tokens(spec)
    if pool is not None:
        arguments["num_gpu_blocks_override"] = pool // block + NULL_BLOCKS
        if cpu and not spec.weights.startswith(HUB):
            arguments["kv_cache_memory_bytes"] = (pool + (NULL_BLOCKS + 1) * block) * _kv_bytes_per_token(spec)
    if spec.policy.kind == WINDOW:
        arguments["hf_overrides"] = _window(spec, spec.policy.on_blocks(block).window)
    if spec.policy.kind == SINKS:
        arguments["scheduler_cls"] = GUARD_SCHEDULER
    elif keeps_first_max_tokens():
        arguments["scheduler_cls"] = SESSION_SCHEDULER
    return arguments | spec.vllm_args


def check_names(asked: Iterable[str], known: Sequence[str]) -> None:
    """Raises UsageError for the first name that vLLM does not know."""
    for name in asked:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"vLLM has no argument {name.replace('_', '-')}",
                f"did you mean --{close[0].replace('_', '-')}?" if close else "",
            )


def switch_plugin(policy: KvPolicy) -> None:
    """Tell this process, and the engine it is about to start, what the kvwindow plugin is to do: nothing, unless the
    policy has sinks."""
    if policy.kind != SINKS:
        os.environ.pop(PLUGIN_VARIABLE, None)
        return
    os.environ[PLUGIN_VARIABLE] = f"{policy.window}+{policy.sinks}"
    if "VLLM_PLUGINS" in os.environ:
        named = [name for name in os.environ["VLLM_PLUGINS"].split(",") if name]
        os.environ["VLLM_PLUGINS"] = ",".join(dict.fromkeys([*named, PLUGIN]))


def slow_down(share: float, arguments: dict[str, Any]) -> None:
    """Have every step of the engine that is about to start take `share` longer. Raises UsageError."""
    if not share:
        return
    if arguments["async_scheduling"]:
        raise UsageError("a worker cannot be slowed with async-scheduling: its steps overlap")
    os.environ[SLOW_VARIABLE] = f"{share} {arguments.get('scheduler_cls') or STOCK_SCHEDULER}"
    arguments["scheduler_cls"] = SLOW_SCHEDULER


def in_flight(spec: WorkerSpec, block: int) -> int:
    """I: tokens of one session in one step, at most; whole blocks."""
    return most_in_flight(spec.profile.timing.most_tokens, block)


def tokens_in_flight(config: Any) -> int:
    """I of an engine's VllmConfig, whose arguments may be the user's: a step's share of one session, times the steps
    that run at once."""
    scheduler = config.scheduler_config
    share, threshold = int(scheduler.max_num_batched_tokens), int(scheduler.long_prefill_token_threshold)
    if 0 < threshold < share and not getattr(scheduler, "long_prefill_token_threshold_adaptive", False):
        share = threshold
    return share * int(getattr(config, "max_concurrent_batches", 1))


def room(policy: KvPolicy, in_flight: int, block: int, blocks: int) -> tuple[int | None, int | None]:
    """Sessions that the pool holds for ever, and the blocks each may take; None where sessions grow."""
    if not policy.bounded:
        return None, None
    each = peak_blocks(policy, in_flight, block)
    return (blocks - NULL_BLOCKS) // each, each


def _block_size(spec: WorkerSpec, cpu: bool) -> int:
    """vLLM's own defaults, but for stand-ins."""
    if spec.stand_in:
        return spec.profile.stand_in.block_size
    return 128 if cpu else 16


def _positions(spec: WorkerSpec, block: int) -> int:
    """Most tokens of one request. vLLM does not start where the pool could not hold one that long; a window it knows of
    keeps a request shorter than that."""
    most, pool = spec.profile.decoder.request_positions, pool_tokens(spec)
    if pool is None or spec.policy.kind in (WINDOW, SINKS):
        return most
    return min(most, pool // block * block)


def _batch_tokens(spec: WorkerSpec, block: int) -> int:
    """Most tokens of one step: vLLM does not start where the pool could not hold a window and one such step."""
    least, pool = max(in_flight(spec, block), spec.max_sessions), pool_tokens(spec)
    if pool is None or spec.policy.kind not in (WINDOW, SINKS):
        return max(BATCH_TOKENS, least)
    return max(min(BATCH_TOKENS, pool - spec.policy.on_blocks(block).full_tokens - 2 * block), least)


def pool_tokens(spec: WorkerSpec) -> int | None:
    """Tokens the pool is to hold; None leaves it to the engine."""
    if spec.pool_tokens is not None or not spec.stand_in:
        return spec.pool_tokens
    return spec.profile.reference_pool_tokens


def _window(spec: WorkerSpec, window: int) -> dict[str, Any]:
    return {
        "sliding_window": window,
        "use_sliding_window": True,
        "max_window_layers": 0,
        "layer_types": ["sliding_attention"] * _layers(spec),
    }


def _layers(spec: WorkerSpec) -> int:
    if not spec.weights.startswith(HUB):
        return _shape(spec).layers
    from transformers import AutoConfig

    try:
        return int(AutoConfig.from_pretrained(spec.weights.removeprefix(HUB)).num_hidden_layers)
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"--weights {spec.weights}: {first_line(error)}") from error


def _shape(spec: WorkerSpec) -> Decoder | StandIn:
    return spec.profile.stand_in if spec.stand_in else spec.profile.decoder


def _model(spec: WorkerSpec, folder: Path) -> str:
    if spec.weights.startswith(HUB):
        return spec.weights.removeprefix(HUB)
    architecture = "Qwen3ForCausalLM" if spec.weights == STANDIN else spec.profile.decoder.architecture
    if architecture not in _MODEL_TYPES:
        raise UsageError(
            f"--weights dummy cannot build {architecture}", f"known: {', '.join(_MODEL_TYPES)}; or use --weights hf:ID"
        )
    config = _config(_shape(spec), architecture, spec.profile.decoder.request_positions)
    if architecture == MIXTURE:
        config |= _experts(spec.profile.decoder)
    text = json.dumps(config)
    model = folder / "model" if _on_cpu() else _kept_folder(text, folder)
    model.mkdir(parents=True, exist_ok=True)
    config_file, whole = model / "config.json", model / f"config.{os.getpid()}"
    if not config_file.exists():  # another worker may be reading it
        whole.write_text(text)
        whole.replace(config_file)
    return str(model)


def _kept_folder(text: str, folder: Path) -> Path:
    """The same folder for the same shape: vLLM looks its compiled kernels up by the model's path, and a worker that
    finds none compiles for a minute."""
    with contextlib.suppress(UsageError, OSError):
        kept = cache_folder("shapes") / hashlib.sha256(text.encode()).hexdigest()[:16]
        kept.mkdir(parents=True, exist_ok=True)
        if os.access(kept, os.W_OK):
            return kept
    return folder / "model"


def _experts(decoder: Decoder) -> dict[str, Any]:
    if decoder.experts is None:
        raise UsageError(f"--weights dummy: {MIXTURE} needs decoder.experts, experts_per_token and expert_width")
    return {
        "num_experts": decoder.experts,
        "num_experts_per_tok": decoder.experts_per_token,
        "moe_intermediate_size": decoder.expert_width,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
    }


def _config(shape: Decoder | StandIn, architecture: str, positions: int) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": _MODEL_TYPES[architecture],
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "max_position_embeddings": positions,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "initializer_range": 0.02,
    }


def _kv_bytes_per_token(spec: WorkerSpec) -> int:
    """For values of 4 bytes, the largest that can be; the pool's memory is only taken as it is written."""
    shape = _shape(spec)
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * 4


def _on_cpu() -> bool:
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def _cpu_dtype() -> str:
    """bfloat16 only where the processor has it: emulated it took 3.7 times as long to fill a session as float32."""
    import torch

    return "bfloat16" if torch.cpu._is_avx512_bf16_supported() else "float32"


def keeps_first_max_tokens() -> bool:
    """Whether this release needs SESSION_SCHEDULER."""
    from vllm.v1.core.sched.scheduler import Scheduler

    return "max_tokens" not in inspect.getsource(Scheduler._update_request_as_session)


def first_line(error: BaseException) -> str:
    """What an exception says, in one line; its name where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
