"""One conversation in the OpenAI Realtime dialect (GA names), with one event more per consumed frame.

Pure protocol: bytes come in by `receive`, leave by the `send` it was given; sockets are the gateway's job.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pybase64

from metrobench.worker.client_events import ClientEvent, Format, Own, RefusedError, decode_event
from metrobench.worker.engine import Engine
from metrobench.worker.features import Extractor, Samples
from metrobench.worker.outbox import Outbox
from metrobench.worker.response import Response
from metrobench.worker.sessions import FrameDone, Session, SessionRules
from metrobench.worker.turnstile import Turnstile

DEFAULT_RATE = 24_000
MIN_RATE, MAX_RATE = 8_000, 96_000
REPLY_UNITS = 3
"""Units that the answer to `response.create` speaks for."""
MAX_BACKLOG = 600.0
"""Seconds of audio that may wait for the engine."""
MIN_BUDGET_MS, MAX_BUDGET_MS = 1.0, 600_000.0

CLOSE_OK, CLOSE_POLICY, CLOSE_TOO_BIG, CLOSE_INTERNAL, CLOSE_TRY_LATER = 1000, 1008, 1009, 1011, 1013

_ROLLOVER = ',"rollover":true'
_APPEND = b'{"type":"input_audio_buffer.append","audio":"'
_APPEND_LENGTH = len(_APPEND)


@dataclass(frozen=True, slots=True)
class Shared:
    """What every conversation of a gateway has in common."""

    model: str
    engine_name: str
    stand_in: bool
    kv: str
    unit_ms: float
    sample_rate: int
    extractor: Extractor
    rules: SessionRules
    turnstile: Turnstile | None = None
    """None: every frame goes to the engine as soon as it is complete."""


class Conversation:
    """Protocol state of one socket; a sessions.Listener. `close` is called once, with a code and a reason."""

    def __init__(
        self,
        engine: Engine,
        number: int,
        shared: Shared,
        send: Callable[[bytes], None],
        close: Callable[[int, str], None],
    ) -> None:
        self._shared = shared
        self._outbox = Outbox(send)
        self._close = close
        self._id = f"sess_{number:06d}"
        self._responses = 0
        self._items = 0
        self._ended = False
        self._manual = False
        self._muted = False
        self._suppressed = False
        self._response: Response | None = None
        self._said = 0
        self._reply_left = 0
        self._reply_after = 0
        self._pushed = 0
        self._fresh_audio = False
        self._heard = False
        self._filled = 0
        self._filling = False
        self._last_item: str | None = None
        self._pcm = bytearray()
        self._before: Samples = np.zeros(shared.extractor.history, dtype=np.int16)
        self._set_rate(DEFAULT_RATE)
        self.session = Session(engine, number, shared.rules, self, shared.turnstile)
        self._handlers: dict[str, Callable[[ClientEvent], None]] = {
            "input_audio_buffer.append": self._on_append,
            "input_audio_buffer.commit": self._on_commit,
            "input_audio_buffer.clear": self._on_clear,
            "session.update": self._on_update,
            "response.create": self._on_create,
            "response.cancel": self._on_cancel,
            "session.close": self._on_close,
        }
        self._outbox.emit("session.created", session=self._describe())

    # Incoming

    def receive(self, payload: bytes | bytearray | memoryview) -> None:
        """One complete text message of the client. Never raises."""
        if self._ended:
            return
        if payload[:_APPEND_LENGTH] == _APPEND and payload[-2:] == b'"}':
            try:
                self._pcm += pybase64.b64decode(payload[_APPEND_LENGTH:-2], validate=True)
            except binascii.Error:
                pass
            else:
                if len(self._pcm) >= self._unit_bytes:
                    self._cut_units()
                return
        self._receive_any(payload)

    def _receive_any(self, payload: bytes | bytearray | memoryview) -> None:
        event_id = None
        try:
            event = decode_event(payload)
            event_id = event.event_id
            handler = self._handlers.get(event.type)
            if handler is None:
                raise RefusedError("unknown_event", f"unknown event type {event.type[:80]!r}", "type")
            handler(event)
        except RefusedError as refused:
            self._outbox.error(refused.code, refused.message, refused.param, event_id)
        except msgspec.ValidationError as error:
            self._outbox.error("invalid_event", str(error), None, event_id)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._outbox.error("invalid_json", f"not a JSON event: {error}", None, None)

    def refuse_binary(self) -> None:
        """The client sent a binary message."""
        self._outbox.error(
            "invalid_event", "audio comes as base64 inside JSON text messages, not as binary", None, None
        )

    def _on_append(self, event: ClientEvent) -> None:
        if event.audio is None:
            raise RefusedError("missing_field", "input_audio_buffer.append needs audio", "audio")
        try:
            self._pcm += pybase64.b64decode(event.audio, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RefusedError("invalid_audio", f"audio is not base64: {error}", "audio") from error
        if len(self._pcm) >= self._unit_bytes:
            self._cut_units()

    def _on_commit(self, event: ClientEvent) -> None:
        if not self._pcm and not self._fresh_audio:
            raise RefusedError("input_audio_buffer_commit_empty", "no audio was appended since the last commit")
        if self._pcm:
            self._pcm += bytes(self._unit_bytes - len(self._pcm))
            self._cut_units()
        self._fresh_audio = False
        self._items += 1
        item = f"item_{self._id[5:]}_{self._items}"
        self._outbox.emit("input_audio_buffer.committed", item_id=item, previous_item_id=self._last_item)
        self._last_item = item

    def _on_clear(self, event: ClientEvent) -> None:
        self._pcm.clear()
        self._outbox.emit("input_audio_buffer.cleared")

    def _on_update(self, event: ClientEvent) -> None:
        update = event.session
        if update is None:
            raise RefusedError("missing_field", "session.update needs a session", "session")
        given = update.audio.input if update.audio is not None else None
        own = update.metrobench or Own()
        fill = self._checked_fill(own.fill_tokens)
        budget = self._checked_budget(own.budget_ms)
        if given is not None and given.format is not None:
            self._checked_format(given.format)
        if given is not None and given.turn_detection is not msgspec.UNSET:
            self._manual = given.turn_detection is None
        if budget is not None:
            self.session.budget = budget / 1000.0
        if fill:
            self._filling = True
            self.session.fill(fill)
        else:
            self._outbox.emit("session.updated", session=self._describe())

    def _checked_fill(self, fill: int) -> int:
        rules, heard = self._shared.rules, self._heard or bool(self._pcm)
        if fill and (heard or self._filling or self._filled):
            raise RefusedError("invalid_state", "fill_tokens only works once, before any audio", "session.metrobench")
        most = rules.max_model_len - 1
        if not 0 <= fill <= most:
            raise RefusedError("invalid_value", f"fill_tokens must be 0 to {most}", "session.metrobench.fill_tokens")
        return fill

    def _checked_budget(self, budget: float | None) -> float | None:
        if budget is not None and not MIN_BUDGET_MS <= budget <= MAX_BUDGET_MS:
            limits = f"{MIN_BUDGET_MS:g} to {MAX_BUDGET_MS:g}"
            raise RefusedError("invalid_value", f"budget_ms must be {limits}", "session.metrobench.budget_ms")
        return budget

    def _checked_format(self, given: Format) -> None:
        where = "session.audio.input.format"
        if given.type != "audio/pcm":
            raise RefusedError("invalid_value", "only audio/pcm is supported", f"{where}.type")
        rate = DEFAULT_RATE if given.rate is None else given.rate
        if not MIN_RATE <= rate <= MAX_RATE or rate * self._shared.unit_ms % 1000:
            raise RefusedError(
                "invalid_value",
                f"rate must be {MIN_RATE} to {MAX_RATE} and give whole samples in {self._shared.unit_ms:g} ms",
                f"{where}.rate",
            )
        if rate != self._rate:
            if self._heard or self._pcm:
                raise RefusedError("invalid_state", "the rate cannot change after audio came", f"{where}.rate")
            self._set_rate(rate)

    def _on_create(self, event: ClientEvent) -> None:
        if self._reply_left:
            raise RefusedError("conversation_already_has_active_response", "a response is under way")
        self._reply_left = REPLY_UNITS
        self._reply_after = self._pushed
        self._feed_silence()

    def _on_cancel(self, event: ClientEvent) -> None:
        if self._response is None and not self._reply_left:
            raise RefusedError("response_cancel_not_active", "no response is under way")
        self._reply_left = 0
        self._muted = self._suppressed = True
        self._finish_response("cancelled", "client_cancelled")

    def _on_close(self, event: ClientEvent) -> None:
        self._outbox.emit("session.closed")
        self.end(CLOSE_OK, "session closed")

    # Audio

    def _set_rate(self, rate: int) -> None:
        self._rate = rate
        self._unit_bytes = 2 * round(rate * self._shared.unit_ms / 1000)

    def _cut_units(self) -> None:
        pcm, size = self._pcm, self._unit_bytes
        count = len(pcm) // size
        if (self.session.backlog + count) * self._shared.unit_ms > MAX_BACKLOG * 1000:
            self._outbox.error("buffer_overflow", f"more than {MAX_BACKLOG:g} s of audio are waiting", None, None)
            self.end(CLOSE_TOO_BIG, "buffer overflow")
            return
        self._heard = self._fresh_audio = True
        for index in range(count):
            self._push(self._at_model_rate(np.frombuffer(bytes(pcm[index * size : (index + 1) * size]), dtype="<i2")))
        del pcm[: count * size]

    def _at_model_rate(self, samples: Samples) -> Samples:
        """Each unit by itself: a streaming resampler would hold the unit's end back until the next one comes."""
        if self._rate == self._shared.sample_rate:
            return samples
        import soxr

        length = self._shared.extractor.unit_samples
        resampled: Samples = soxr.resample(samples, self._rate, self._shared.sample_rate, quality="MQ")[:length]
        return np.pad(resampled, (0, length - len(resampled))) if len(resampled) < length else resampled

    def _push(self, samples: Samples) -> None:
        unit = self._shared.extractor.unit(samples, self._before)
        if len(self._before):
            self._before = np.concatenate((self._before, samples))[-len(self._before) :]
        self._pushed += 1
        self.session.push(unit.tokens, unit.speech)

    def _feed_silence(self) -> None:
        if self._reply_left and self.session.idle and not self._ended:
            self._push(np.zeros(self._shared.extractor.unit_samples, dtype=np.int16))

    # sessions.Listener

    def speaks(self, frame: int, user_speaks: bool) -> bool:
        self._suppressed = False
        if user_speaks:
            self._muted = False
            return False
        if self._reply_left:
            return frame >= self._reply_after or self._response is not None
        return not self._manual and not self._muted

    def first_token(self, frame: int, tokens: list[int], speaking: bool) -> None:
        if speaking and not self._suppressed:
            self._say(tokens)

    def frame_done(self, done: FrameDone) -> None:
        if done.speaking and not self._suppressed:
            self._say(done.tokens[self._said :])
            if self._reply_left:
                self._reply_left -= 1
                if not self._reply_left:
                    self._muted = True
                    self._finish_response("completed", None)
        elif not done.speaking and self._response is not None:
            self._reply_left = 0
            self._finish_response("cancelled", "turn_detected")
        self._said = 0
        self._emit_frame(done)
        self._feed_silence()

    def filled(self, tokens: int) -> None:
        self._filled, self._filling = tokens, False
        self._outbox.emit("session.updated", session=self._describe())

    def failed(self, code: str, message: str) -> None:
        self._outbox.error(code, message, None, None, kind="server_error" if code.startswith("engine") else None)
        self.end(CLOSE_INTERNAL if code.startswith("engine") else CLOSE_POLICY, code)

    # Outgoing

    def _say(self, tokens: list[int]) -> None:
        if self._response is None:
            self._responses += 1
            self._response = Response(self._outbox, f"{self._id[5:]}_{self._responses}")
        self._said += len(tokens)
        self._response.say(tokens)

    def _finish_response(self, status: str, reason: str | None) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.finish(status, reason, self.session.total)

    def _emit_frame(self, done: FrameDone) -> None:
        unit = self._shared.unit_ms
        self._outbox.write(
            "metrobench.frame.done",
            f'"frame":{done.frame},"media_time":{{"start_ms":{done.frame * unit!r},"duration_ms":{unit!r}}},'
            f'"tokens":{len(done.tokens)},"speaking":{"true" if done.speaking else "false"},'
            f'"resident_tokens":{done.resident}{_ROLLOVER if done.rollover else ""}',
        )

    def _describe(self) -> dict[str, Any]:
        shared = self._shared
        own: dict[str, Any] = {
            "unit_ms": shared.unit_ms,
            "first_ready_ms": shared.unit_ms,
            "frame_class": "A",
            "kv": shared.kv,
            "max_positions": shared.rules.max_model_len,
            "stand_in": shared.stand_in,
            "engine": shared.engine_name,
            "can_fill": True,
            "text": "token ids, not words",
        }
        if self._filled:
            own["filled_tokens"] = self._filled
        if self.session.budget is not None:
            own["budget_ms"] = 1000.0 * self.session.budget
        detection = None if self._manual else {"type": "server_vad"}
        listen = {"format": {"type": "audio/pcm", "rate": self._rate}, "turn_detection": detection}
        return {
            "id": self._id,
            "object": "realtime.session",
            "type": "realtime",
            "model": shared.model,
            "output_modalities": ["text"],
            "audio": {"input": listen},
            "metrobench": own,
        }

    def end(self, code: int, reason: str) -> None:
        """End the session and ask for the socket to be closed. Does nothing the second time."""
        if not self._ended:
            self._ended = True
            self.session.close()
            self._close(code, reason)

    def gone(self) -> None:
        """The client vanished: the session's request is aborted and its blocks come back."""
        self._ended = True
        self.session.close()
