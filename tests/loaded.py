"""vLLM in the process of the tests, loaded once; every engine lives in a fork of it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from collections.abc import Iterator

import pytest

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # a pool of threads does not survive a fork
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "",  # the tests register the plugin themselves
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


@pytest.fixture(scope="session")
def vllm() -> Iterator[None]:
    """vLLM and what an engine here needs, imported before any fork and left out of its garbage collections."""
    os.environ.update(ENVIRONMENT)
    import torch

    torch.set_num_threads(1)
    pytest.importorskip("vllm")
    import vllm.engine.arg_utils
    import vllm.v1.attention.backends.cpu_attn
    import vllm.v1.engine.core
    import vllm.v1.executor.uniproc_executor
    import vllm.v1.worker.cpu_worker  # noqa: F401
    from vllm import ModelRegistry
    from vllm.model_executor.models import bloom, gemma3, llama, qwen2, qwen3, qwen3_moe

    # A class that is registered is inspected here and not in a new process that would import vLLM again.
    for module, name in (
        (bloom, "BloomForCausalLM"),
        (gemma3, "Gemma3ForCausalLM"),
        (llama, "LlamaForCausalLM"),
        (qwen2, "Qwen2ForCausalLM"),
        (qwen3, "Qwen3ForCausalLM"),
        (qwen3_moe, "Qwen3MoeForCausalLM"),
    ):
        ModelRegistry.register_model(name, getattr(module, name))

    from metrobench.worker import preload

    for name in preload.CPU_MODULES:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    preload.override_kernels_once()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
