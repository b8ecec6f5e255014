"""The entry point of group `vllm.general_plugins`."""

from __future__ import annotations

from metrobench.kvwindow import settings

BACKENDS = {
    "CPU_ATTN": "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend",
    "FLASH_ATTN": "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend",
    "TRITON_ATTN": "vllm.v1.attention.backends.triton_attn.TritonAttentionBackend",
    "FLASHINFER": "vllm.v1.attention.backends.flashinfer.FlashInferBackend",
}
"""vLLM's names of the backends that can be windowed, and their classes."""

_registered = False


def class_name(backend: str) -> str:
    """Name in backends.py of the windowed backend, e.g. SinkWindow_FLASH_ATTN."""
    return f"SinkWindow_{backend}"


def register() -> None:
    """Override vLLM's attention backends, in every process of the engine; nothing at all when KVWINDOW is not set.

    vLLM calls it once a process or more. Raises ValueError when KVWINDOW cannot be read.
    """
    global _registered
    if _registered or settings.from_environment() is None:
        return
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    from metrobench.kvwindow import compat
    from metrobench.kvwindow.spec import register_spec

    register_spec()
    compat.patch_spec_hook()
    for name in BACKENDS:
        register_backend(AttentionBackendEnum[name], f"metrobench.kvwindow.backends.{class_name(name)}")
    _registered = True
