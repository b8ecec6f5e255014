"""Where the sessions go: a fresh embedded worker per run, or somebody's endpoint. Both look alike to the probe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from metrobench.admission.choice import KV_BOUND, Choice
from metrobench.errors import UsageError
from metrobench.policy import KvPolicy
from metrobench.profiles import Profile
from metrobench.restart import Restart, round_trip
from metrobench.speed import SpeedMeter
from metrobench.worker.cores import Layout
from metrobench.worker.launcher import ForkServer, Worker
from metrobench.worker.spec import DUMMY, HUB, STANDIN, WorkerSpec
from metrobench.worker.turnstile import ARRIVAL, BY_ARRIVAL, Order


class Running(Protocol):
    """A server that accepts sessions."""

    url: str

    def telemetry(self) -> list[dict[str, float | None]]:
        """Samples since the last call, `t` in CLOCK_MONOTONIC seconds; empty where nothing can be seen."""
        ...

    def death(self) -> str | None:
        """Why the server died, or None while it lives or cannot be seen."""
        ...

    def describe(self) -> dict[str, Any]:
        """What it says of itself, for the record."""
        ...


class Server(Protocol):
    """Something that can be measured again and again."""

    ours: bool
    """True where the server is this command's own: its processes are seen and metered."""
    fresh_each_run: bool
    """True where every run meets a new server."""
    can_fill: bool
    """True where sessions can be given resident tokens before they start."""
    client_cores: frozenset[int] | None
    """Cores for the load process; None: any."""
    cores: frozenset[int]
    """Cores that server and load process share between them; none: those of the whole machine."""
    engine_meter: SpeedMeter | None
    """Meters the core of the engine, where that is ours."""
    beside_meter: SpeedMeter | None
    """Meters the core of the load process, where the server's is ours too."""

    @contextmanager
    def fresh(self, sessions: int, log: Path) -> Iterator[Running]:
        """A server ready for `sessions` sessions; gone, with everything it held, afterwards."""
        ...

    def settle(self) -> None:
        """Let a server that goes on get over its last sessions."""
        ...


@dataclass
class _EmbeddedRunning:
    worker: Worker
    url: str

    def telemetry(self) -> list[dict[str, float | None]]:
        return self.worker.telemetry()

    def death(self) -> str | None:
        return self.worker.death()

    def describe(self) -> dict[str, Any]:
        return {"kind": "embedded", **asdict(self.worker.info)}


class EmbeddedServer:
    """A fresh worker per run, forked from a process that has loaded vLLM once."""

    ours = True
    fresh_each_run = True
    can_fill = True

    def __init__(
        self,
        forkserver: ForkServer,
        layout: Layout,
        profile: Profile,
        policy: KvPolicy,
        weights: str,
        pool_tokens: int | None,
        seed: int,
        engine_meter: SpeedMeter | None = None,
        beside_meter: SpeedMeter | None = None,
        vllm_args: dict[str, Any] | None = None,
        slow: float = 0.0,
    ) -> None:
        """`slow`: share by which every engine step is made longer, on purpose."""
        self.engine_meter, self.beside_meter = engine_meter, beside_meter
        self._forkserver = forkserver
        self._layout = layout
        self._profile = profile
        self._policy = policy
        self._weights = weights
        self._pool_tokens = pool_tokens
        self._seed = seed
        self._vllm_args = vllm_args or {}
        self._guard_positions = True
        self._admission = KV_BOUND
        self._budget: float | None = None
        self._order = BY_ARRIVAL
        self._slow = slow
        self._launched = 0
        self.client_cores: frozenset[int] | None = layout.load
        self.cores = layout.engine | layout.front | layout.load

    def guarded(self, positions: bool) -> EmbeddedServer:
        """The same, which ends a session before the model's last position, or leaves that to the engine."""
        other = copy(self)
        other._guard_positions = positions
        return other

    def under(self, policy: KvPolicy) -> EmbeddedServer:
        """The same with another KV policy."""
        other = copy(self)
        other._policy = policy
        return other

    def admitting(self, choice: Choice, budget: float) -> EmbeddedServer:
        """The same with another rule of admission, for a frame budget of `budget` seconds."""
        other = copy(self)
        other._admission, other._budget = choice, budget
        return other

    def ordered(self, order: Order) -> EmbeddedServer:
        """The same with another order of frames in front of the engine."""
        other = copy(self)
        other._order = order
        return other

    @contextmanager
    def fresh(self, sessions: int, log: Path) -> Iterator[Running]:
        """A new worker that admits `sessions` sessions at the most."""
        self._launched += 1
        spec = WorkerSpec(
            profile=self._profile,
            policy=self._policy,
            max_sessions=sessions,
            pool_tokens=self._pool_tokens,
            weights=self._weights,
            seed=self._seed + self._launched,
            front_cores=self._layout.front,
            engine_cores=self._layout.engine,
            log=log,
            vllm_args=self._vllm_args,
            guard_positions=self._guard_positions,
            admission=self._admission,
            budget=self._budget,
            order=self._order,
            slow=self._slow,
        )
        worker = self._forkserver.launch(spec)
        try:
            yield _EmbeddedRunning(worker, worker.url)
        finally:
            worker.kill()

    def settle(self) -> None:
        """Nothing to wait for: the next worker is another one."""


@dataclass
class _ForeignRunning:
    url: str
    protocol: str
    first_seen: float
    round_trip: float | None
    """Seconds of one network round trip; None: no connect."""

    def telemetry(self) -> list[dict[str, float | None]]:
        return []

    def death(self) -> str | None:
        return None

    def describe(self) -> dict[str, Any]:
        age = time.monotonic() - self.first_seen
        return {
            "kind": "endpoint",
            "url": self.url,
            "protocol": self.protocol,
            "seen_for_seconds": round(age, 1),
            "round_trip_seconds": self.round_trip,
        }


class ForeignServer:
    """Somebody's endpoint. Without a way to restart it all runs share one server: its age is in the record, and a quiet
    period lies between them."""

    ours = False
    client_cores: frozenset[int] | None = None
    cores: frozenset[int] = frozenset()
    engine_meter: SpeedMeter | None = None
    beside_meter: SpeedMeter | None = None

    def __init__(
        self,
        url: str,
        protocol: str,
        can_fill: bool,
        quiet: float = 1.0,
        restart: Restart | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """`quiet`: seconds between two runs; `stop`: True once the command was interrupted."""
        self._url = url
        self._protocol = protocol
        self._quiet = quiet
        self._restart = restart
        self._stop = stop
        self._first_seen: float | None = None
        self.can_fill = can_fill
        self.fresh_each_run = restart is not None

    @contextmanager
    def fresh(self, sessions: int, log: Path) -> Iterator[Running]:
        """The server restarted, or the same after a quiet period. Raises UnreachableError."""
        if self._restart is not None:
            self._restart.run(log, self._stop)
            self._first_seen = time.monotonic()
        elif self._first_seen is None:
            self._first_seen = time.monotonic()
        else:
            self.settle()
        yield _ForeignRunning(self._url, self._protocol, self._first_seen, round_trip(self._url))

    def settle(self) -> None:
        """A quiet period."""
        time.sleep(self._quiet)


def check_order(asked: str, endpoint: str | None) -> None:
    """Raises UsageError where an order is given for a server that has its own."""
    if asked != ARRIVAL and endpoint is not None:
        raise UsageError("--order is for the embedded worker", "an --endpoint orders its frames itself")


def check_admission(asked: str | None, endpoint: str | None) -> None:
    """Raises UsageError where a rule of admission is given for a server that has its own."""
    if asked is not None and endpoint is not None:
        raise UsageError("--admission is for the embedded worker", "an --endpoint decides for itself who may join")


def resolve_weights(weights: str, has_gpu: bool) -> str:
    """`auto` becomes the stand-in without a GPU; with one, the choice must be made: nothing is quietly substituted."""
    if weights in (STANDIN, DUMMY) or (weights.startswith(HUB) and len(weights) > len(HUB)):
        return weights
    if weights != "auto":
        raise UsageError(f"--weights {weights!r} is unknown", "use auto, standin, dummy or hf:ID")
    if has_gpu:
        raise UsageError(
            "this machine has a GPU: say what to run on it",
            "--weights dummy (the model's real shape), hf:ID (real weights) or standin (a small transformer)",
        )
    return STANDIN


def check_room(profile: Profile, policy: KvPolicy, pool_tokens: int | None) -> None:
    """Raises UsageError where positions or pool have no room for even one full session."""
    full, frame = policy.full_tokens, profile.timing.most_tokens
    if full + frame >= profile.decoder.request_positions:
        raise UsageError(
            f"--kv {policy}: a full session and one frame need {full + frame} positions, {profile.name}"
            f" has {profile.decoder.request_positions}",
            "choose a smaller window",
        )
    if pool_tokens is not None and pool_tokens < full + frame:
        raise UsageError(
            f"--pool-tokens {pool_tokens}: one full session at {policy} and one frame need {full + frame} tokens",
            "give the pool room for at least one session",
        )
