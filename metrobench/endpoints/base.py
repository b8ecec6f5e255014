"""The contract between the load path and a wire protocol. One protocol, one file, one class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from metrobench.errors import UsageError


class FrameClass(Enum):
    """How replies relate to input frames (protocols.md section 0)."""

    LOCKSTEP = "A"  # one reply per unit, always
    UNIT_LOSSY = "B"  # unit-clocked, some units give no reply or several; tie by media time
    SEGMENT = "C"  # the unit is a segment of seconds
    TURN = "D"  # no reply per unit: the turn is measured

    @property
    def title(self) -> str:
        """For reports."""
        words = {
            "A": "lockstep",
            "B": "unit-clocked, lossy",
            "C": "segments",
            "D": "turns",
        }
        return f"{self.value} ({words[self.value]})"

    @property
    def noun(self) -> str:
        """What is counted in this class: the word of every metric and report."""
        return {"C": "segment", "D": "turn"}.get(self.value, "frame")


class Kind(Enum):
    """What an incoming message means for the measurement."""

    OPENED = "opened"  # the server greeted us
    ACCEPTED = "accepted"  # the session is configured (and filled, if that was asked): audio may flow
    OUTPUT = "output"  # some content of a frame (text, audio): first output
    FRAME_DONE = "frame_done"  # the complete answer to one frame
    QUEUED = "queued"  # the session waits for a place; `message` says where it stands
    TURN_START = "turn_start"  # class D: the server begins an answer
    TURN_DONE = "turn_done"  # class D: the answer is complete
    ERROR = "error"  # the server reports an error; `fatal` ends the session
    CLOSED = "closed"  # the server says that the session is over, asked for or not; `message` says why
    OTHER = "other"  # known or unknown, of no weight


SHORTEST_SECRET = 4
"""Characters of a header's value that is taken out of texts."""

NOT_UNDERSTOOD = "not_understood"
"""Code of an ERROR observation that stands for a message the protocol cannot read."""


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a message of another shape, bytes that are no text, and nesting without end."""


class Observation(msgspec.Struct, frozen=True, gc=False):
    """One incoming message, normalised."""

    kind: Kind
    frame: int | None = None
    """Index of the input frame it belongs to; None: the next one that has no answer (class C: the newest one that is
    ready, class D: the newest turn whose speech is over)."""
    count: int = 1
    """FRAME_DONE: frames, from `frame` on, that this message completes (class B may answer several at once; 0: it is
    more of an answer to the frame, by default the one answered last)."""
    tokens: int = -1
    """Content units in the answer; -1: not said."""
    flags: int = 0
    """Bits of measure.facts.FrameFlag."""
    audio: float = 0.0
    """Seconds of speech in this message; class D plays it."""
    reply: tuple[bytes, ...] = ()
    """Messages to send back at once, before anything else is sent."""
    code: str = ""
    message: str = ""
    fatal: bool = False
    signals: dict[str, float | str | None] | None = None
    """With a refusal: what the server says of its state."""


class Said(msgspec.Struct, frozen=True, gc=False):
    """What one incoming message says to people."""

    text: str = ""
    """Words, or a part of them."""
    audio: bytes = b""
    """Speech, PCM16 mono little-endian."""
    rate: int = 0
    """Hz of it."""


NOTHING = Said()


class Access(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user says about an endpoint beside its address. Its secrets are never printed or stored."""

    headers: dict[str, str] = {}
    """Handshake headers beside the token."""
    token: str = ""
    """For the protocol's own header."""
    model: str = ""
    """Name of the model at the server; empty: not given."""
    session: dict[str, Any] = {}
    """Merged into the message that configures a session."""
    ca_file: str = ""
    """PEM file of the certificate authorities to trust; empty: the system's."""
    insecure: bool = False
    """Accept any certificate."""

    def __repr__(self) -> str:
        return f"Access(headers={sorted(self.headers)}, model={self.model!r})"

    def clean(self, text: str) -> str:
        """The text without secrets, wherever it comes from."""
        for secret in (self.token, *self.headers.values()):
            for part in (secret, secret.partition(" ")[2]):
                if len(part) >= SHORTEST_SECRET:
                    text = text.replace(part, "***")
        return text


class Endpoint(Protocol):
    """A wire protocol as the load path sees it. Pure: bytes in, bytes out, no I/O and no clock.

    Build one on EndpointBase, which holds what most protocols have in common.
    """

    name: str
    frame_class: FrameClass
    sample_rate: int
    """Hz of the PCM16 mono audio that `encode_chunk` takes."""
    unit: float
    """Seconds of audio in one frame."""
    first_ready: float
    """Seconds of audio from the start of a session to the last sample that frame 0 needs."""
    schemes: tuple[str, ...]
    """Of its addresses."""
    http: bool
    """Messages are HTTP/1.1 requests on a connection of the session's own; `decode` gets status, space and body of each
    response."""
    binary: bool
    """Messages go out as binary WebSocket messages; False: as text."""
    subprotocols: tuple[str, ...]
    """WebSocket subprotocols to offer."""
    numbered: bool
    """Every message of chunks ends with `tail(number)`, a fragment of its own."""
    group: int
    """Chunks that make one message, after `group_head()`; each is a fragment of its own, sent when it is due."""
    at_once: bool
    """Such a message goes out whole, when its last chunk is due; what ends a session can then never cut into one."""
    pieces: tuple[tuple[int, int], ...]
    """Where a fragment depends on its place in the message: by place, start and end of it in what `encode_chunk` gives;
    empty where it does not."""
    personal: bool
    """Every chunk message is made a session's own by `personalise`."""
    costly: bool
    """Encoding takes long: it is done by `encode_clip`, for the clips of a run only, which are kept for other runs."""
    unaccepted: str
    """Why a connected session is refused that nothing accepts within `{seconds:g}` seconds."""
    access: Access
    """What the user says about the endpoint."""
    budgets: Sequence[float]
    """Each session's own frame budget, seconds, for a server that is told it in `opening`; empty: none is told."""
    greets: bool
    """The server speaks first; False: it waits for `opening`."""
    says_goodbye: bool
    """The server answers `closing()` with a CLOSED observation: the connection waits for it."""
    converses: bool
    """The server answers what is said to it, and `listener` understands the answer."""

    def url(self) -> str:
        """Address to connect to."""
        ...

    def headers(self) -> dict[str, str]:
        """Extra handshake headers."""
        ...

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """Messages to send once connected; the session is accepted when an ACCEPTED observation arrives (it may come
        first: a greeting is one where nothing else confirms). `fill_tokens` > 0 asks the server for that many resident
        tokens of the session's own, if it can."""
        ...

    def encode_chunk(self, pcm: bytes) -> bytes:
        """The message for one chunk of PCM16 mono audio; empty: nothing is sent for it. Same for every session, so it
        is made once per clip."""
        ...

    def encode_clip(self, chunks: Sequence[bytes]) -> list[bytes]:
        """One message for each of the consecutive chunks of a clip, or of a pause; used only where `costly`: chunks of
        such a codec need not stand alone."""
        ...

    def tail(self, number: int) -> bytes:
        """End of a session's message `number` of chunks, from 0; used only where `numbered`. Equal for all sessions."""
        ...

    def group_head(self) -> bytes:
        """What stands before the chunks of one message; used only where `group` is more than 1."""
        ...

    def personalise(self, message: bytes, number: int) -> bytes:
        """Chunk message `number`, from 0, of one session; used only where `personal`, and cheap."""
        ...

    def request(self, number: int, session: int) -> bytes:
        """The request that goes out with chunk `number`, from 0, of a session; empty: none. Used only where `http`."""
        ...

    def decode(self, payload: bytes) -> Observation:
        """The meaning of one incoming message; never raises on a strange one (OTHER or ERROR instead)."""
        ...

    def decoder(self) -> Callable[[bytes], Observation]:
        """`decode` for one session: a function of its own where the protocol needs a memory."""
        ...

    def listener(self) -> Callable[[bytes], Said]:
        """What each incoming message of one session says to people; a function of its own for every session. Never
        raises on a strange one."""
        ...

    def mismatch(self, said: bytes) -> str:
        """Why the frames that the server describes in its first message, or in the one that accepts the session, are
        not this endpoint's; empty when they are, or when it does not say."""
        ...

    def can_fill(self, greeting: bytes) -> bool:
        """Whether the server says, in its OPENED message, that it gives a session resident tokens when asked to."""
        ...

    def closing(self) -> list[bytes]:
        """Messages that end a session politely, before the close handshake."""
        ...

    def farewell(self, session: int) -> list[bytes]:
        """`closing` for one session."""
        ...


class Stream(msgspec.Struct, frozen=True):
    """How a protocol cuts a session's audio."""

    frame_class: FrameClass
    unit: float
    first_ready: float
    sample_rate: int
    budget: float | None = None
    """B in seconds where the user says nothing; None: the model's."""


class EndpointBase:
    """What most protocols have in common: text messages, chunks that stand alone, no memory."""

    name = ""
    frame_class = FrameClass.LOCKSTEP
    schemes: tuple[str, ...] = ("ws", "wss")
    http = False
    binary = False
    subprotocols: tuple[str, ...] = ()
    numbered = False
    group = 1
    at_once = False
    pieces: tuple[tuple[int, int], ...] = ()
    personal = False
    costly = False
    unaccepted = "not accepted within {seconds:g} s"
    says_goodbye = False
    greets = True
    converses = False
    budgets: Sequence[float] = ()
    needs_model = False
    """The server must be told which of its models is meant."""
    token_header, token_prefix = "Authorization", "Bearer "
    """Where a token goes."""

    def __init__(
        self, url: str, *, unit: float, first_ready: float, sample_rate: int = 16_000, access: Access | None = None
    ) -> None:
        """Raises UsageError when the address is not of one of its `schemes`."""
        check_url(url, self.schemes)
        self._url = url
        self.unit = unit
        self.first_ready = first_ready
        self.sample_rate = sample_rate
        self.access = access or Access()

    @classmethod
    def fit(cls, unit: float, sample_rate: int) -> Stream:
        """The audio of this protocol for a model with frames of `unit` seconds at `sample_rate` Hz. Raises UsageError
        where they do not go together."""
        return Stream(cls.frame_class, unit, unit, sample_rate)

    def url(self) -> str:
        """Address to connect to."""
        return self._url

    def headers(self) -> dict[str, str]:
        """The user's handshake headers, and the token."""
        token = self.access.token
        return ({self.token_header: self.token_prefix + token} if token else {}) | self.access.headers

    def opening(self, session: int, fill_tokens: int) -> list[bytes]:
        """Nothing to say."""
        del session, fill_tokens
        return []

    def encode_chunk(self, pcm: bytes) -> bytes:
        """The audio as it is."""
        return pcm

    def encode_clip(self, chunks: Sequence[bytes]) -> list[bytes]:
        """Chunk by chunk."""
        return [self.encode_chunk(pcm) for pcm in chunks]

    def tail(self, number: int) -> bytes:
        """Nothing."""
        del number
        return b""

    def group_head(self) -> bytes:
        """Nothing."""
        return b""

    def personalise(self, message: bytes, number: int) -> bytes:
        """The same for every session."""
        del number
        return message

    def request(self, number: int, session: int) -> bytes:
        """None."""
        del number, session
        return b""

    def decode(self, payload: bytes) -> Observation:
        """Nothing is understood."""
        del payload
        return Observation(Kind.OTHER)

    def decoder(self) -> Callable[[bytes], Observation]:
        """`decode`, which keeps nothing."""
        return self.decode

    def listener(self) -> Callable[[bytes], Said]:
        """Nothing is understood."""
        return _deaf

    def mismatch(self, said: bytes) -> str:
        """The server does not describe its frames."""
        del said
        return ""

    def can_fill(self, greeting: bytes) -> bool:
        """It cannot."""
        del greeting
        return False

    def closing(self) -> list[bytes]:
        """Nothing to say."""
        return []

    def farewell(self, session: int) -> list[bytes]:
        """The same for every session."""
        del session
        return self.closing()


def _deaf(payload: bytes) -> Said:
    del payload
    return NOTHING


def check_url(url: str, schemes: tuple[str, ...] = ("ws", "wss", "http", "https")) -> None:
    """Raises UsageError when `url` is not an address of one of the schemes with a host."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        if "ws" not in schemes:
            raise UsageError(f"{url!r} is not an HTTP address", "write http://HOST:PORT or https://HOST")
        raise UsageError(f"{url!r} is not a WebSocket address", "write ws://HOST:PORT/PATH or wss://HOST/PATH")
