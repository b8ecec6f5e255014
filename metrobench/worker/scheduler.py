"""vLLM's scheduler, mended where a release lets every input of a streaming session decode as many tokens as its first.

Named by engine arguments and imported inside the engine only.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler


class SessionScheduler(Scheduler):  # type: ignore[misc]
    """Takes `max_tokens` from each input (0.26 keeps the first one's; 0.32 takes it, scheduler.py:1685)."""

    def _update_request_as_session(self, session: Any, update: Any) -> None:
        super()._update_request_as_session(session, update)
        session.max_tokens = update.max_tokens
