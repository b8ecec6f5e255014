"""The facts of one run, as the load process records them. Everything else is derived from these by pure functions.

All times are seconds on the run's monotonic clock, counted from `t0` (the start of the schedule). A time that
does not exist (no answer came) is NaN in memory and null in files; no derived number may be NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FRAME_DTYPE = np.dtype(
    [
        ("session", "<u4"),  # session number, from 0
        ("frame", "<u4"),  # frame number within the session, from 0
        ("t_ready", "<f8"),  # scheduled end of the last chunk the frame needs
        ("t_sent", "<f8"),  # when that chunk really left the client
        ("t_first", "<f8"),  # first output of the frame received (NaN: none)
        ("t_done", "<f8"),  # complete answer received (NaN: none)
        ("lag_max", "<f4"),  # largest send lag of any chunk of the frame
        ("tokens", "<i4"),  # content units in the answer (tokens, audio chunks); -1: the protocol does not say
        ("flags", "<u4"),  # bits of FrameFlag
    ]
)
"""One row per frame that became due (its answer came, or the run ended without one)."""


class FrameFlag:
    """Bits of the `flags` column."""

    CONTENT_DUE = 1  # the protocol promises content for this frame: an empty answer is hollow
    SPEAKING = 2  # the server was speaking in this frame
    BROKEN = 8  # class D: the answer's speech came too slowly to be played without a gap
    ROLLOVER = 4  # the server rebuilt the session's context for this frame


TELEMETRY_FIELDS = (
    "t",  # seconds from t0
    "engine_cpu",  # cumulative CPU seconds of the engine process (null: not visible)
    "front_cpu",  # cumulative CPU seconds of the gateway / front-end process
    "client_cpu",  # cumulative CPU seconds of the load process
    "parent_cpu",  # cumulative CPU seconds of the command line
    "machine_cpu",  # cumulative busy CPU seconds of all cores, whoever used them
    "engine_rss",  # bytes
    "front_rss",  # bytes
    "client_rss",  # bytes
    "kv_usage",  # fraction of the KV pool in use, as the engine says
    "running",  # requests running, as the engine says
    "waiting",  # requests waiting, as the engine says
    "deferred",  # paused streaming sessions, as the engine says
    "resident_tokens",  # sum of the token ledgers
    "backlog",  # complete frames at the gateway not yet given to the engine
    "prefix_hits",  # cumulative tokens found in the prefix cache
    "preemptions",  # cumulative, as the engine says
    "steal",  # fraction of CPU time stolen by the hypervisor since the last sample
    "admission_cap",  # sessions that the worker's admission would allow (null: no limit)
    "frames",  # cumulative frames answered by the gateway
    "engine_seconds",  # cumulative seconds these frames were in the engine's hands
)
"""Columns of telemetry.parquet, float64, null where a source does not exist."""
LATER_FIELDS = frozenset({"admission_cap", "frames", "engine_seconds", "machine_cpu", "parent_cpu"})
"""Those that records of earlier versions lack."""


@dataclass(slots=True)
class SessionFacts:
    """What happened to one session."""

    session: int
    phase: float
    """Seconds after t0 at which the session's first chunk begins."""
    refused: bool = False
    """Not connected, not accepted or not filled before t0."""
    t_closed: float | None = None
    """Seconds from t0 at which the connection ended before its planned end; None: it stayed open."""
    close_code: int | None = None
    reason: str = ""
    """Why it was refused or closed, in the server's words."""
    filled_tokens: int = 0
    """Resident tokens given before its audio."""
    t_arrived: float | None = None
    """Open system: scheduled time at which the client came; all times in seconds from t0."""
    t_connected: float | None = None
    """Open system: when the handshake was done."""
    t_accepted: float | None = None
    t_refused: float | None = None
    """Open system: when the refusal was complete."""
    frames: int | None = None
    """Open system: frames it was to speak for; its connection ends after them."""
    budget: float | None = None
    """B of this session in seconds, where it has one of its own."""
    signals: dict[str, float | str | None] | None = None
    """What the server said of its state when it refused the session."""


@dataclass(slots=True)
class RunFacts:
    """Everything one run recorded."""

    frames: npt.NDArray[np.void]
    """Rows of FRAME_DTYPE in any order; at most one per (session, frame)."""
    sessions: list[SessionFacts]
    """One per planned session, refused ones included."""
    budget: float
    """B, seconds: the deadline of a frame after t_ready."""
    unit: float
    """Seconds of audio in one frame."""
    first_ready: float
    """Seconds from a session's phase to the t_ready of its frame 0 (unit + offset + look-ahead)."""
    stalls: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))
    """Shape (n, 2): start and end of each time the client's event loop did not turn."""
    lag_counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Histogram of every chunk's send lag over LAG_EDGES."""
    t_stop: float = 0.0
    """Seconds from t0 at which streaming stopped. Answers due later than t_stop are unknown, not missed."""


LAG_EDGES: npt.NDArray[np.float64] = np.concatenate([np.arange(0.0, 0.010, 0.0001), np.geomspace(0.010, 100.0, 201)])
"""Edges in seconds of the send-lag histogram: 0.1 ms steps below 10 ms, then 50 steps a decade. Lags are never
negative: a chunk is not sent before it is due. The last bin takes everything above."""
