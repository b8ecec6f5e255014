"""What the fork server loads before the first worker, and the environment it must be loaded in."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import sys
from multiprocessing.context import BaseContext
from pathlib import Path

from metrobench.worker.channel import Failed

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""Set before any import, where the user has not set them."""

UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""vLLM's CPU build drags these in, and their compiled operators break its import beside a CPU torch."""

MODULES = (
    "uvloop",
    "picows",
    "soxr",
    "vllm.engine.arg_utils",
    "vllm.engine.protocol",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.engine.core_client",
    "vllm.v1.executor.uniproc_executor",
)

CPU_MODULES = ("vllm.v1.worker.cpu_worker", "vllm.v1.attention.backends.cpu_attn")
MODELS = {"Qwen3ForCausalLM": "vllm.model_executor.models.qwen3"}
"""Registered as classes: vLLM inspects a model known only by name in a new process, which takes seconds."""

_INSTALL = 'pip install "metrobench[cpu]" (or [gpu] beside a CUDA GPU)'


def load() -> str | Failed:
    """vLLM's version once everything is loaded, or why it cannot be."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    hide_unwanted()
    if importlib.util.find_spec("vllm") is None:
        return Failed("vLLM is not installed, so there is no embedded worker", _INSTALL)
    try:
        for name in MODULES:
            importlib.import_module(name)
        return _load_platform()
    except Exception as error:
        return Failed(f"vLLM does not load: {type(error).__name__}: {error}", _INSTALL)


def _load_platform() -> str:
    import torch
    from vllm.platforms import current_platform
    from vllm.version import __version__

    torch.set_num_threads(1)
    if current_platform.is_cpu():
        for name in CPU_MODULES:
            importlib.import_module(name)
        fork_engines()
    from vllm.model_executor.models import ModelRegistry

    for architecture, module in MODELS.items():
        ModelRegistry.register_model(architecture, getattr(importlib.import_module(module), architecture))
    return str(__version__)


def hide_unwanted() -> None:
    """Make the unwanted packages look absent, unless torchvision is a shim that is known to work."""
    if not _torchvision_shim():
        for name in UNWANTED:
            sys.modules[name] = None  # type: ignore[assignment]


def _torchvision_shim() -> bool:
    """A hand-made torchvision has no compiled operators: no `_C` library beside it."""
    try:
        spec = importlib.util.find_spec("torchvision")
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin is None:
        return False
    return not list(Path(spec.origin).parent.glob("_C*.so"))


def fork_engines() -> None:
    """vLLM's CPU build starts its engine process with `spawn`, 13 s of imports; a fork has them already."""
    import vllm.utils.system_utils
    import vllm.v1.engine.utils

    vllm.utils.system_utils.get_mp_context = _fork_context
    vllm.v1.engine.utils.get_mp_context = _fork_context


def _fork_context() -> BaseContext:
    return multiprocessing.get_context("fork")
