"""A scheduler that ends a streaming session alone where stock vLLM would die or stall with it.

Two ends, both told to the client as an answer without tokens, finish reason `length`, and a stop reason:

* CONTEXT_FULL: a session's next chunk does not fit in max_model_len. Stock vLLM checks a chunk's own length only; the
  worker then writes past its token table and the engine dies, and every session with it.
* POOL_FULL: nothing runs, and a session that was given a chunk cannot get a block, because sessions between two chunks
  hold them all. Stock vLLM never takes blocks from those and steps on empty for ever. (A session that waits for its
  first block goes on waiting.)

What the client sends to an ended session is answered the same way until it closes it; the session's blocks are free.
Usable without the window: the stock engine has the same two faults.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.request import Request, RequestStatus

from metrobench.kvwindow import compat, settings

logger = init_logger("vllm.kvwindow")

CONTEXT_FULL = "max_model_len"
POOL_FULL = "kv_pool_exhausted"
EMPTY_STEPS = 16
"""Consecutive steps with nothing to run before a starved session is ended; more than any pipeline depth."""


class GuardScheduler(Scheduler):
    """vLLM's scheduler with the two ends above. Becomes its asynchronous twin when async_scheduling is on."""

    def __new__(cls, *_: Any, **kwargs: Any) -> GuardScheduler:
        twin = kwargs["vllm_config"].scheduler_config.async_scheduling and not issubclass(cls, AsyncScheduler)
        made: GuardScheduler = object.__new__(AsyncGuardScheduler if twin else cls)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ended: dict[str, str] = {}
        self._answers: list[tuple[int, EngineCoreOutput]] = []
        self._empty_steps = 0
        _check_window(self.kv_cache_config)

    def add_request(self, request: Request) -> None:
        """A new request, a session's next chunk, or a session's end (not resumable)."""
        existing = self.requests.get(request.request_id)
        if existing is None and (reason := self._ended.get(request.request_id)):
            if request.resumable:
                self._answer(request, reason)
            else:
                del self._ended[request.request_id]
            return
        parked = existing is not None and existing.status == RequestStatus.WAITING_FOR_STREAMING_REQ
        if parked and request.resumable and not self._fits(existing, request):
            self._end(existing, CONTEXT_FULL)
            self._answer(request, CONTEXT_FULL)
            return
        super().add_request(request)

    def _handle_stopped_request(self, request: Request) -> bool:
        queue = request.streaming_queue if request.resumable else None
        if queue and queue[0] is not None and not self._fits(request, queue[0]):
            self._close(request, CONTEXT_FULL)
            return True  # the caller frees it and sends the answer to the chunk that just stopped
        return bool(super()._handle_stopped_request(request))

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule a step; end one starved session after EMPTY_STEPS steps with nothing to run."""
        output = super().schedule(*args, **kwargs)
        if output.total_num_scheduled_tokens or self.running or self.pause_state != PauseState.UNPAUSED:
            self._empty_steps = 0
            return output
        self._empty_steps += 1
        if self._empty_steps >= EMPTY_STEPS and (starved := self._starved()):
            self._empty_steps = 0
            self._end(starved, POOL_FULL)
            self._answer(starved, POOL_FULL)
        return output

    def update_from_output(self, *args: Any, **kwargs: Any) -> dict[int, EngineCoreOutputs]:
        """The step's outputs, with the answers to ended sessions after them."""
        outputs: dict[int, EngineCoreOutputs] = super().update_from_output(*args, **kwargs)
        answers, self._answers = self._answers, []
        for client, answer in answers:
            if client not in outputs:
                outputs[client] = EngineCoreOutputs(timestamp=time.monotonic())
            outputs[client].outputs.append(answer)
        return outputs

    def has_requests(self) -> bool:
        """Whether a step is due: also while an answer waits to be sent."""
        return bool(self._answers) or bool(super().has_requests())

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: RequestStatus) -> Any:
        """Finish requests from outside, e.g. when a client is gone. None: all."""
        ids = None if request_ids is None else [request_ids] if isinstance(request_ids, str) else list(request_ids)
        for request_id in list(self._ended) if ids is None else ids:
            self._ended.pop(request_id, None)
        return super().finish_requests(ids, finished_status)

    def _update_request_as_session(self, session: Request, update: Any) -> None:
        """vLLM 0.26 lets every input of a session decode as many tokens as its first; 0.32 takes each input's own."""
        super()._update_request_as_session(session, update)
        session.max_tokens = update.max_tokens

    def _fits(self, session: Request, update: Any) -> bool:
        computed = session.num_computed_tokens - compat.placeholders(session)
        room: int = self.max_model_len - 1 - computed  # one place is left for the token to be sampled
        return len(update.prompt_token_ids or ()) <= room

    def _starved(self) -> Request | None:
        """The newest session that has begun, has a chunk, and cannot get the blocks for it."""
        waiting = [
            request
            for request in self.requests.values()
            if request.resumable
            and (
                request.status == RequestStatus.PREEMPTED
                or (request.status == RequestStatus.WAITING and request.num_computed_tokens)
            )
        ]
        return max(waiting, key=lambda request: request.arrival_time, default=None)

    def _end(self, session: Request, reason: str) -> None:
        super().finish_requests(session.request_id, RequestStatus.FINISHED_LENGTH_CAPPED)
        self._close(session, reason)

    def _close(self, session: Request, reason: str) -> None:
        """Remember the end and answer the chunks already queued; a queued None is the client's own end."""
        logger.warning("kvwindow: session %s ended: %s", session.request_id, reason)
        self._ended[session.request_id] = reason
        for update in session.streaming_queue or ():
            if update is None:
                self._ended.pop(session.request_id, None)
            else:
                self._answer(session, reason)

    def _answer(self, session: Request, reason: str) -> None:
        answer = EngineCoreOutput(
            request_id=session.request_id,
            new_token_ids=[],
            finish_reason=FinishReason.LENGTH,
            stop_reason=reason,
        )
        self._answers.append((session.client_index, answer))


class AsyncGuardScheduler(GuardScheduler, AsyncScheduler):
    """GuardScheduler for async_scheduling."""


def _check_window(kv_cache_config: Any) -> None:
    """Raises ValueError when KVWINDOW is set but no layer of the model is bounded."""
    chosen = settings.from_environment()
    if chosen is None:
        return
    from metrobench.kvwindow.spec import SinkWindowSpec

    specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    specs = [one for spec in specs for one in getattr(spec, "kv_cache_specs", {"": spec}).values()]
    if not any(isinstance(spec, SinkWindowSpec) for spec in specs):
        raise ValueError(
            f"kvwindow cannot run here: {settings.VARIABLE} is set, but no layer was bounded: the model has no "
            "full-attention layer, or its attention backend is not one of CPU_ATTN, FLASH_ATTN, TRITON_ATTN, "
            "FLASHINFER, or VLLM_PLUGINS leaves kvwindow out."
        )
