"""SGLang's streaming sessions over HTTP (protocols.md 7b; read, 0.5.23): tokens in place of audio, a request a frame.

`/open_session`, then `/generate` appends a frame's tokens to the session's KV cache and decodes; a server needs
`--enable-streaming-session`. No audio is sent: what is measured is the engine under the load of many frames.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from metrobench.endpoints import events
from metrobench.endpoints.base import UNREADABLE, Access, EndpointBase, FrameClass, Kind, Observation, Stream
from metrobench.errors import UsageError
from metrobench.measure.facts import FrameFlag
from metrobench.units import CHUNK

TOKENS, NEW_TOKENS = 10, 1
"""Of a frame, and of its answer, where the session's settings say nothing."""
MOST_TOKENS = 100_000
FIRST_ID, LAST_ID = 100, 999
"""Token ids that are sent: in every vocabulary, and all of the same length in JSON."""
VARIETY = 64
"""Different frames; a session begins with one of its own place among them."""
TIMEOUT = 60
"""Seconds without a request after which the server may drop a session."""
CAPACITY = 1_000_000
"""Characters that a session may grow to."""
_OK = 200
_EPSILON = 1e-6


class _Meta(msgspec.Struct, gc=False):
    completion_tokens: int | None = None


class _Answer(msgspec.Struct, gc=False):
    meta_info: _Meta | None = None


_answer = msgspec.json.Decoder(_Answer)


class SglangSessionsEndpoint(EndpointBase):
    """A server's native HTTP interface. Settings (`--session`): `frame_tokens`, and what /generate takes."""

    name = "sglang-sessions"
    frame_class = FrameClass.LOCKSTEP
    schemes = ("http", "https")
    http = True
    greets = False
    says_goodbye = True

    def __init__(
        self, url: str, *, unit: float, first_ready: float, sample_rate: int = 16_000, access: Access | None = None
    ) -> None:
        super().__init__(url, unit=unit, first_ready=first_ready, sample_rate=sample_rate, access=access)
        self._run = os.urandom(4).hex()
        settings = dict(self.access.session)
        tokens = settings.pop("frame_tokens", TOKENS)
        if not isinstance(tokens, int) or not 1 <= tokens <= MOST_TOKENS:
            raise UsageError(f"frame_tokens is {tokens!r} in --session", f"give 1 to {MOST_TOKENS} tokens")
        drawn = random.Random(self.name)
        self._frames = [self._generate(settings, drawn, tokens) for _ in range(VARIETY)]

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """Frames as long as the model's."""
        return Stream(cls.frame_class, unit, unit, sample_rate)

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """`/open_session`."""
        del fill_tokens
        name = self._name(session).decode()
        body = {"capacity_of_str_len": CAPACITY, "session_id": name, "streaming": True, "timeout": TIMEOUT}
        return [b"".join(self._post("/open_session", msgspec.json.encode(body)))]

    def encode_chunk(self, pcm: bytes) -> bytes:
        """Audio is not sent."""
        del pcm
        return b""

    def request(self, number: int, session: int) -> bytes:
        """`/generate` for the frame that chunk `number` completes; empty where it completes none."""
        frame = int((number + 1) * CHUNK / self.unit + _EPSILON)
        if frame == int(number * CHUNK / self.unit + _EPSILON):
            return b""
        before, after = self._frames[(frame - 1 + session) % VARIETY]
        return before + self._name(session) + after

    def decode(self, payload: bytes) -> Observation:
        """The meaning of the first response of a session."""
        return self.decoder()(payload)

    def decoder(self) -> Callable[[bytes], Observation]:
        """Responses come in the order of the requests."""
        return _Decoder().decode

    def farewell(self, session: int) -> list[bytes]:
        """`/close_session`: the server keeps the session's KV cache until then."""
        body = msgspec.json.encode({"session_id": self._name(session).decode()})
        return [b"".join(self._post("/close_session", body))]

    def _name(self, session: int) -> bytes:
        """All of a run are of the same length."""
        return b"metrobench-%b-%06d" % (self._run.encode(), session)

    def _generate(self, settings: dict[str, Any], drawn: random.Random, tokens: int) -> tuple[bytes, bytes]:
        """A request, cut where the session's name goes."""
        mark = self._name(0)
        usual = {"sampling_params": {"max_new_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True}}
        body = events.merged(usual, settings) | {
            "input_ids": [drawn.randint(FIRST_ID, LAST_ID) for _ in range(tokens)],
            "session_params": {"id": mark.decode()},
            "stream": False,
        }
        before, _, after = b"".join(self._post("/generate", msgspec.json.encode(body))).partition(mark)
        return before, after

    def _post(self, path: str, body: bytes) -> tuple[bytes, bytes]:
        """Head and body of a request."""
        parts = urlsplit(self._url)
        fields = {
            "Host": parts.netloc.rpartition("@")[2],
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        } | self.headers()
        lines = [f"POST {parts.path.rstrip('/')}{path} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
        return "\r\n".join([*lines, "", ""]).encode(), body


class _Decoder:
    """One session: how many frames are answered."""

    def __init__(self) -> None:
        self._open = False
        self._answered = 0

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one response. One that failed is the answer of its frame."""
        status, _, body = payload.partition(b" ")
        if not (status.isdigit() and len(status) == len(str(_OK))):
            return events.not_understood(ValueError("a response without a status"))
        if int(status) != _OK:
            self._answered += self._open
            return _failed(int(status), body, fatal=not self._open)
        if not self._open:
            self._open = True
            return events.ACCEPTED
        if body in (b"", b"null"):
            return Observation(Kind.CLOSED, message="the session was closed")
        frame = self._answered
        self._answered += 1
        try:
            meta = _answer.decode(body).meta_info
        except UNREADABLE as error:
            return events.not_understood(error)
        tokens = meta.completion_tokens if meta else None
        content = -1 if tokens is None else min(max(0, tokens), MOST_TOKENS)
        return Observation(Kind.FRAME_DONE, frame=frame, tokens=content, flags=FrameFlag.CONTENT_DUE)


def _failed(status: int, body: bytes, *, fatal: bool) -> Observation:
    """A refusal, in the server's words where it has any."""
    try:
        said = events.trouble(body, frozenset()).message
    except UNREADABLE:
        said = ""
    words = said or body[: events.LONGEST_TEXT].decode("utf-8", "replace")
    return Observation(Kind.ERROR, code=f"HTTP {status}", message=words, fatal=fatal)
