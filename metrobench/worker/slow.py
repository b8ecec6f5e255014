"""vLLM's scheduler, slowed on purpose: every engine step takes a known share longer.

For tests of what must notice a slowdown. Named by engine arguments and imported inside the engine only, which learns
share and scheduler from SLOW_VARIABLE.
"""

from __future__ import annotations

import os
import time
from pkgutil import resolve_name
from typing import Any

SLOW_VARIABLE = "METROBENCH_SLOW"
"""`SHARE SCHEDULER`, for example `0.4 vllm.v1.core.sched.scheduler.Scheduler`."""

_share, _base = os.environ[SLOW_VARIABLE].split()
SHARE = float(_share)
Base: Any = resolve_name(_base)


class SlowScheduler(Base):  # type: ignore[misc]
    """Spins, at the end of each step that computed something, for SHARE of the time since it began."""

    _began = 0.0

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """The start of a step."""
        self._began = time.perf_counter()
        return super().schedule(*args, **kwargs)

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Its end."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if scheduler_output.total_num_scheduled_tokens > 0:
            now = time.perf_counter()
            until = now + SHARE * (now - self._began)
            while time.perf_counter() < until:
                pass
        return outputs
