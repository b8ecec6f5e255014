"""What a worker is asked to be, and what it turned out to be. Both cross process borders as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from metrobench.admission.choice import KV_BOUND, Choice
from metrobench.errors import UsageError
from metrobench.policy import KvPolicy
from metrobench.profiles import Profile
from metrobench.worker.turnstile import BY_ARRIVAL, Order

STANDIN = "standin"
DUMMY = "dummy"
HUB = "hf:"

MAX_SESSIONS = 65_536
MAX_POOL_TOKENS = 10**10
MAX_SLOW = 10.0


@dataclass(frozen=True)
class WorkerSpec:
    """One fresh worker. Raises UsageError on values out of range."""

    profile: Profile
    policy: KvPolicy
    max_sessions: int
    pool_tokens: int | None
    """Tokens of KV cache; None: the profile's reference pool for a stand-in, the engine's own profiling otherwise."""
    weights: str
    """`standin`, `dummy` (the model's real shape) or `hf:ID` (a local folder or a hub id)."""
    seed: int
    front_cores: frozenset[int] | None
    """Cores of the gateway process; None: where the parent runs."""
    engine_cores: frozenset[int] | None
    """The engine's own; None: where the parent runs."""
    log: Path
    """Everything the worker prints is appended here."""
    vllm_args: dict[str, Any] = field(default_factory=dict)
    """AsyncEngineArgs by name; they win over everything this package would choose. JSON values only."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port."""
    admission: Choice = KV_BOUND
    """Who may join."""
    budget: float | None = None
    """B in seconds, which the controller aims at; None: the profile's."""
    order: Order = BY_ARRIVAL
    """In which order frames go to the engine."""
    guard_positions: bool = True
    """False leaves the position limit to the engine, which then dies with all its sessions."""
    slow: float = 0.0
    """Share by which every engine step is made longer, on purpose: a known slowdown for tests."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_sessions <= MAX_SESSIONS:
            raise UsageError(f"a worker holds 1 to {MAX_SESSIONS} sessions, not {self.max_sessions}")
        if self.pool_tokens is not None and not 1 <= self.pool_tokens <= MAX_POOL_TOKENS:
            raise UsageError(f"--pool-tokens {self.pool_tokens} is outside 1 to {MAX_POOL_TOKENS}")
        if self.weights not in (STANDIN, DUMMY) and not (self.weights.startswith(HUB) and len(self.weights) > len(HUB)):
            raise UsageError(f"--weights {self.weights!r} is unknown", "use standin, dummy or hf:ID")
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"port {self.port} is outside 0 to 65535")
        if not 0.0 <= self.slow <= MAX_SLOW:
            raise UsageError(f"--slow {self.slow:g} is outside 0 to {MAX_SLOW:g}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed {self.seed} is outside 0 to 2^63 - 1")

    @property
    def budget_or_profile(self) -> float:
        """B in seconds of a session that names none."""
        return self.profile.budget if self.budget is None else self.budget

    @property
    def stand_in(self) -> bool:
        """True where a small transformer runs in the model's place."""
        return self.weights == STANDIN


@dataclass(frozen=True)
class WorkerInfo:
    """A worker that is ready."""

    port: int
    vllm_version: str
    torch_version: str
    device: str
    """The engine's device: `cpu` or the GPU's name."""
    stand_in: bool
    model: str
    policy: str
    """The KV policy in force, rounded to blocks."""
    block_size: int
    num_blocks: int
    """Blocks of the pool, the null block included."""
    pool_tokens: int
    """Tokens the pool can hold: (num_blocks - 1) x block_size."""
    max_model_len: int
    max_sessions: int
    kv_sessions: int | None
    """Sessions that the pool holds for ever: no more are admitted. None where the policy bounds nothing."""
    peak_blocks: int | None
    """Most blocks one session holds."""
    front_pid: int
    engine_pid: int
    front_cores: tuple[int, ...]
    engine_cores: tuple[int, ...]
    shared_core: bool
    """True where engine and gateway had to share a core."""
    start_seconds: float = 0.0
    """From the call of launch to ready."""


def encode_spec(spec: WorkerSpec) -> bytes:
    """JSON of a spec. Raises UsageError when `vllm_args` holds something JSON cannot say."""
    try:
        return msgspec.json.encode(spec, enc_hook=_encode_other)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise UsageError(f"vLLM arguments must be plain JSON values: {error}") from error


def decode_spec(data: bytes) -> WorkerSpec:
    """The spec in `data`."""
    return msgspec.json.decode(data, type=WorkerSpec, dec_hook=_decode_other)


def _encode_other(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{value!r} is no JSON value")


def _decode_other(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(f"cannot read a {kind}")
