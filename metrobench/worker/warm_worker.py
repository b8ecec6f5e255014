"""vLLM's CPU worker, which has the memory of a busy step before it serves.

Named by engine arguments and imported inside the engine only.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.worker.cpu_worker import CPUWorker

SESSIONS = 128
"""So many that decode in one step have its memory ready."""
COPIES = 4
"""Tables of a step's logits that a step has in use at most (seen: the resident memory's growth in float32)."""


class WarmWorker(CPUWorker):  # type: ignore[misc]
    """The kernel zeroes memory when it is first touched, up to a third of the time of a busy engine's first steps."""

    def compile_or_warm_up_model(self) -> Any:
        """As vLLM does, and then touch what the logits of SESSIONS sessions take: with the allocator's MALLOC
        (launcher.py) it stays with this process."""
        times = super().compile_or_warm_up_model()
        rows = min(SESSIONS, self.scheduler_config.max_num_seqs)
        torch.ones(COPIES * rows * self.model_config.get_vocab_size(), dtype=torch.float32)
        return times
