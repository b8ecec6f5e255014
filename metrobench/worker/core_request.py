"""A request for vLLM's engine core, for what drives the core by hand instead of through AsyncLLM."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any


def core_request(name: str, tokens: Sequence[int], params: Any, *, resumable: bool) -> Any:
    """A vllm.v1.engine.EngineCoreRequest, or the next input of the resumable one of that name. `params`: its
    vllm.SamplingParams."""
    from vllm.v1.engine import EngineCoreRequest

    return EngineCoreRequest(
        request_id=name,
        prompt_token_ids=list(tokens),
        mm_features=None,
        sampling_params=params,
        pooling_params=None,
        arrival_time=time.time(),
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
        resumable=resumable,
    )


def add_request(core: Any, request: Any) -> None:
    """Give it to the core (vllm.v1.engine.core.EngineCore), as the core's own input thread would."""
    core.add_request(*core.preprocess_add_request(request))
