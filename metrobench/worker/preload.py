"""What the fork server loads before the first worker, and the environment it must be loaded in."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from pathlib import Path

from metrobench.worker.channel import Failed
from metrobench.worker.warmup import CACHE, Matrix, compile_kernels

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
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # or a look at the GPU before the fork takes it from the forked engine
    **CACHE,
}
"""Set before any import, where the user has not set them."""

LAZY_BYTES = 1 << 24
"""Smallest `torch.zeros` that is left untouched."""
_PAGE = 4096

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
    "vllm.v1.core.sched.scheduler",
    "vllm.model_executor.model_loader.dummy_loader",
)

CPU_MODULES = (
    "vllm.v1.worker.cpu_worker",
    "vllm.v1.attention.backends.cpu_attn",
    "vllm.model_executor.layers.quantization.online.base",
    "vllm.model_executor.layers.quantization.compressed_tensors.utils",
    "vllm.v1.pool.flash_maxsim",
    "vllm.transformers_utils.chat_templates",
    "vllm.distributed.elastic_ep.elastic_execute",
)
"""Loaded by every engine sooner or later; missing ones are passed over, other versions have others."""

MODELS = {"Qwen3ForCausalLM": "vllm.model_executor.models.qwen3"}
"""Registered as classes: vLLM inspects a model known only by name in a new process, which takes seconds."""

_INSTALL = 'pip install "metrobench[cpu]" (or [gpu] beside a CUDA GPU)'


def missing() -> Failed | None:
    """That there is no vLLM; None where there is one. Imports nothing of it."""
    if importlib.util.find_spec("vllm") is None:
        return Failed("vLLM is not installed, so there is no embedded worker", _INSTALL)
    return None


def load(wanted: Sequence[Matrix] = ()) -> str | Failed:
    """vLLM's version once everything is loaded, and the kernels of these matrices compiled, or why it cannot be."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if (absent := missing()) is not None:
        return absent
    gc.disable()  # a fifth of the time goes into searching a heap that only grows
    try:
        hide_unwanted()
        for name in MODULES:
            importlib.import_module(name)
        version = _load_platform()
        compile_kernels(wanted)
        return version
    except Exception as error:
        return Failed(f"vLLM does not load: {type(error).__name__}: {error}", _INSTALL)
    finally:
        gc.enable()


def _load_platform() -> str:
    import torch
    from vllm.platforms import current_platform
    from vllm.version import __version__

    torch.set_num_threads(1)
    if current_platform.is_cpu():
        for name in CPU_MODULES:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)
        fork_engines()
        override_kernels_once()
        leave_large_zeros_untouched()
    from vllm.model_executor.models import ModelRegistry

    for architecture, module in MODELS.items():
        ModelRegistry.register_model(architecture, getattr(importlib.import_module(module), architecture))
    return str(__version__)


def hide_unwanted() -> None:
    """Make the unwanted packages look absent beside a CPU torch, unless torchvision is a shim that is known to work."""
    import torch

    cpu = torch.version.cuda is None and torch.version.hip is None
    if cpu and not torchvision_shim():
        for name in UNWANTED:
            sys.modules[name] = None  # type: ignore[assignment]


def torchvision_shim() -> bool:
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


def override_kernels_once() -> None:
    """vLLM swaps its Triton kernels by a search through all modules: half a second, once is enough."""
    from vllm.platforms import current_platform

    override = getattr(current_platform, "register_triton_kernel_overrides", None)
    if override is not None:
        override()
        type(current_platform).register_triton_kernel_overrides = staticmethod(lambda: None)


def leave_large_zeros_untouched() -> None:
    """Let `torch.zeros` take a large pool of bytes as the kernel gives it, zeroed on first use.

    vLLM writes zeros over its whole KV pool at start: seconds, and memory for tokens that may never come.
    """
    import numpy as np
    import torch

    fill = torch.zeros

    def zeros(*size: object, **options: object) -> object:
        lazily = len(size) == 1 and isinstance(size[0], int) and size[0] >= LAZY_BYTES
        plain = not options.keys() - {"dtype", "device"} and options.get("dtype") is torch.int8
        if not (lazily and plain and torch.device(options.get("device") or "cpu").type == "cpu"):
            return fill(*size, **options)
        count = int(str(size[0]))
        memory = np.zeros(count + _PAGE, dtype=np.int8)
        start = -memory.ctypes.data % _PAGE
        return torch.from_numpy(memory[start : start + count])

    torch.zeros = zeros


def _fork_context() -> BaseContext:
    return multiprocessing.get_context("fork")
