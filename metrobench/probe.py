"""One measured run: a server, N sessions, the facts on disk, a verdict. Every command that measures calls it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metrobench.corpus.mix import Noise
from metrobench.endpoints.base import Access, FrameClass, Stream
from metrobench.endpoints.registry import fit
from metrobench.journal import Begun, Journal
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.machine import cpu_spent
from metrobench.measure.facts import FRAME_DTYPE, TELEMETRY_FIELDS, RunFacts
from metrobench.measure.plan import Plan, Slo, extended, plan_run
from metrobench.measure.telemetry import Row, cpu_shares, since
from metrobench.measure.verdict import Outcome, Verdict, judge
from metrobench.policy import KvPolicy
from metrobench.predict.ahead import Ahead, Follower
from metrobench.predict.review import holds, noted, pool_of
from metrobench.predict.talk import rates_of
from metrobench.probe_record import judge_run, make_record
from metrobench.profiles import Profile
from metrobench.records import Aftermath, Forecast, ProbeRecord, now, write_facts
from metrobench.servers import Running, Server

SAMPLE_EVERY = 0.5
"""Seconds between telemetry samples."""
BUSY = 0.9
"""CPU share of an engine whose core is warm throughout: a core that rests now and then is slow after each rest."""
RAMP = 0.5
"""Seconds from the first complete frames until the engine's core is busy."""
ROOM = 32 << 20
"""Bytes of a run folder that do not grow with the run: the lags, the pages, what is kept back for a full disk."""
MAX_SPAN_FACTOR = 4
"""An unresolved run goes on to 2 T, at most 4 T (measurement.md, A run and its verdict)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What decides a measured run, N and the server apart."""

    profile: Profile
    policy: KvPolicy
    protocol: str
    budget: float
    """B, seconds."""
    q: float
    slo: Slo | None
    span: float | None
    """T, seconds; None: the shortest that may be judged."""
    clips: tuple[Path, ...]
    stop_when_failed: bool
    """End the run as soon as it has certainly failed."""
    extend_unresolved: bool
    noise: Noise | None = None
    gain: float = 0.0
    talk: str = "half"
    table: Path | None = None
    """The clips, noise and gain prepared for this profile's sample rate (LoadSpec.table)."""
    excuse_slow: bool = True
    """A run that fails on a slow machine is void."""
    access: Access = field(default_factory=Access)
    """Headers, model and certificates of the endpoint; never stored."""
    record_wire: Path | None = None
    """File for the wire traffic of one session."""
    aftermath: bool = False
    """After a run that collapsed, try what brings the server back."""

    @property
    def stream(self) -> Stream:
        """How the protocol cuts the audio for this model."""
        return fit(self.protocol, self.profile.timing.unit, self.profile.timing.sample_rate)

    def plan(self, sessions: int) -> Plan:
        """The plan of a run of `sessions` sessions."""
        return plan_run(
            sessions=sessions,
            budget=self.budget,
            unit=self.stream.unit,
            q=self.q,
            span=self.span,
            slo=self.slo,
            noun=self.stream.frame_class.noun,
        )

    def short_plan(self, frames: int, sessions: int = 1) -> Plan:
        """A few frames, nothing cut: too short for a verdict, enough to see answers."""
        unit = self.stream.unit
        noun = self.stream.frame_class.noun
        return Plan(sessions=sessions, budget=self.budget, unit=unit, q=self.q, cut_frames=0, frames=frames, noun=noun)


@dataclass(frozen=True, slots=True)
class Kv:
    """The KV pool of a run that goes on."""

    used: float
    """Latest share in use."""
    ahead: Ahead | None = None
    """When it will be full; None: not told yet."""


@dataclass(slots=True)
class Watch:
    """How the caller follows a run and interrupts it."""

    interrupted: Callable[[], bool]
    show: Callable[[LoadEvent, Kv | None], None]
    """Called with every event of the load process and the KV pool, where it is visible."""


@dataclass(slots=True)
class Sampler:
    """Telemetry of server, client and machine on one time axis."""

    server: Running
    journal: Journal
    rows: list[Row] = field(default_factory=list)
    cores: frozenset[int] = frozenset()
    """Cores whose CPU time is the machine's; none: all."""
    kv: float | None = None
    follower: Follower | None = None
    t0: float | None = None
    """Start of the schedule, absolute; None: not yet."""
    open: int = 0
    """Sessions whose connection is open."""
    _client: tuple[float, int] = (0.0, 0)
    _last: float = 0.0
    _steal: tuple[float, float] = (0.0, 0.0)

    def client(self, event: LoadEvent) -> None:
        if event.cpu:
            self._client = (event.cpu, event.rss)
        if event.kind == "started":
            self.t0 = event.t0
        elif event.kind in ("connected", "progress"):
            self.open = event.connected
        elif event.kind == "filled":
            self.open = event.filled

    def pool(self) -> Kv | None:
        """What people who watch are told of it."""
        if self.kv is None:
            return None
        if self.follower is None or self.t0 is None:
            return Kv(self.kv)
        return Kv(self.kv, self.follower.ahead(self._last - self.t0))

    def sample(self) -> None:
        moment = time.monotonic()
        if moment - self._last < SAMPLE_EVERY:
            return
        self._last = moment
        seen = self.server.telemetry() or [{"t": moment}]
        machine = cpu_spent(self.cores)
        own = {
            "client_cpu": self._client[0],
            "client_rss": float(self._client[1]),
            "parent_cpu": time.process_time(),
            "machine_cpu": machine.busy,
            "steal": self._stolen(machine.total, machine.steal),
        }
        # the server's samples come in batches where this process was held up; the others are of now
        seen = [row | dict.fromkeys(own) for row in seen[:-1]] + [seen[-1] | own]
        self.rows += seen
        self.journal.sample(seen)
        if (kv := seen[-1].get("kv_usage")) is not None:
            self.kv = kv
        if self.follower is not None and self.t0 is not None:
            for row in seen:
                t = row["t"]
                if t is not None:
                    self.follower.take(t - self.t0, row.get("kv_usage"), self.open, row.get("resident_tokens"))

    def _stolen(self, total: float, steal: float | None) -> float | None:
        if steal is None:
            return None
        before_total, before_steal = self._steal
        self._steal = (total, steal)
        return (steal - before_steal) / (total - before_total) if before_total and total > before_total else None


def probe(
    setting: Setting, server: Server, sessions: int, seed: int, index: int, folder: Path, watch: Watch
) -> tuple[ProbeRecord, Verdict]:
    """Measure `sessions` sessions against a fresh server and store everything under `folder`.

    Raises UnreachableError when no session could be opened, UsageError when there is no room for the facts.
    """
    return probe_plan(setting, server, setting.plan(sessions), seed, index, folder, watch)


def probe_plan(
    setting: Setting, server: Server, plan: Plan, seed: int, index: int, folder: Path, watch: Watch
) -> tuple[ProbeRecord, Verdict]:
    """`probe` with a plan of one's own."""
    started, begin = now(), time.monotonic()
    fill = setting.policy.full_tokens if server.can_fill else 0
    with server.fresh(plan.sessions, folder / "server.log") as running:
        spec = load_spec(setting, server, running.url, plan, seed, fill, folder / "spool")
        kv, says = str(setting.policy), describe(server, running)
        begun = Begun(index, seed, started, begin, fill, plan, setting.excuse_slow, says, kv)
        sampler = Sampler(
            running, Journal(spec.spool), cores=server.cores, follower=_follower(setting, says, plan.sessions)
        )
        sampler.journal.begin(begun)
        with LoadProcess(spec) as load:
            load.start()
            marks, died, aftermath = _follow(load, begun, setting, sampler, watch)
            load.stop()
            facts = load.facts()
        death = running.death()
        begun.server = describe(server, running)
    rows = since(sampler.rows, marks.get("started"))
    shares = cpu_shares(rows, begun.plan)
    measured = marks.get("started", begin) + plan.unit + RAMP, marks["ended"]
    slowdown = _slowdown(server, *measured, shares)
    verdict = judge_run(begun, facts, rows, slowdown=slowdown, client_died=bool(died))
    complaint = store(folder, facts, rows)
    record = make_record(begun, folder.name, facts, rows, verdict)
    if watch.interrupted():
        record.outcome = "interrupted"
    record.reasons += [*died, *([f"the server died: {death}"] if death else []), *complaint]
    record.aftermath = aftermath
    if server.beside_meter is not None:
        # not the engine's core: one that rests now and then says nothing
        record.core_work = server.beside_meter.mean(*measured)
    record.forecasts = _forecasts(setting, record, facts, rows)
    record.wall_seconds = round(time.monotonic() - begin, 3)
    record.start_seconds = _between(begin, marks.get("connected"))
    record.fill_seconds = _between(marks.get("connected"), marks.get("filled")) if fill else None
    return record, verdict


def _follower(setting: Setting, says: dict[str, Any], sessions: int) -> Follower | None:
    """Who follows the pool's gauge; None where the server shows none."""
    pool = pool_of(says)
    if pool is None:
        return None
    policy = setting.policy.on_blocks(pool.block_size)
    held = policy.bounded and holds(pool, policy, rates_of(setting.profile.timing), sessions)
    return Follower(pool, held, exact=not policy.bounded)


def _forecasts(setting: Setting, record: ProbeRecord, facts: RunFacts, rows: list[Row]) -> list[Forecast]:
    """When the pool would be full, as it could have been told; a forecast never costs the measurement."""
    columns = {name: np.array([row.get(name) for row in rows], dtype=np.float64) for name in TELEMETRY_FIELDS}
    try:
        return noted(record, facts, columns, setting.policy, rates_of(setting.profile.timing))
    except (ArithmeticError, LookupError, ValueError) as error:
        return [Forecast("none", f"it could not be made: {error}")]


def discard_raw(folder: Path) -> None:
    """Drop the raw facts of a run that is in the record, once its tables are complete."""
    if (folder / "facts.json").is_file():
        shutil.rmtree(folder / "spool", ignore_errors=True)


def store(folder: Path, facts: RunFacts, rows: list[dict[str, float | None]]) -> list[str]:
    """Write the facts; where that fails, say so: the raw ones are kept."""
    try:
        write_facts(folder, facts, rows)
    except OSError as error:
        return [f"the tables could not be written ({error.strerror}): the raw facts are kept in {folder / 'spool'}"]
    return []


def describe(server: Server, running: Running) -> dict[str, Any]:
    """What the record says of the server."""
    return running.describe() | {"client_cores": sorted(server.client_cores or ())}


def room_needed(setting: Setting, plan: Plan) -> int:
    """Bytes on disk that one run may need at a time, about: its raw facts, and the tables made of them."""
    longest = plan.frames * (MAX_SPAN_FACTOR if setting.extend_unresolved else 1)
    return 2 * plan.sessions * (plan.cut_frames + longest) * FRAME_DTYPE.itemsize + ROOM


def load_spec(
    setting: Setting, server: Server, url: str, plan: Plan, seed: int, fill_tokens: int, spool: Path
) -> LoadSpec:
    """What the load process is asked to do for `plan`."""
    stream = setting.stream
    longest = plan.frames * (MAX_SPAN_FACTOR if setting.extend_unresolved else 1)
    return LoadSpec(
        protocol=setting.protocol,
        url=url,
        sessions=plan.sessions,
        budget=plan.budget,
        limit=plan.limit,
        unit=stream.unit,
        first_ready=stream.first_ready,
        seed=seed,
        clips=setting.clips,
        cut_frames=plan.cut_frames,
        frames=plan.frames,
        max_frames=longest,
        spool=spool,
        fill_tokens=fill_tokens,
        fill_timeout=max(60.0, 0.2 * plan.sessions),
        stop_after_misses=plan.allowed if setting.stop_when_failed else None,
        cores=server.client_cores,
        sample_rate=stream.sample_rate,
        noise=setting.noise,
        gain=setting.gain,
        talk=setting.talk,
        table=setting.table,
        access=setting.access,
        record_wire=setting.record_wire,
        spread=stream.unit if stream.frame_class is FrameClass.TURN else None,
    )


def _follow(
    load: LoadProcess, begun: Begun, setting: Setting, sampler: Sampler, watch: Watch
) -> tuple[dict[str, float], list[str], list[Aftermath]]:
    """Watch the run to its end, with the plan of `begun` made longer where it must be. Returns when it connected,
    filled, started and ended (monotonic), how the load process died, if it did, and what was tried after a collapse."""
    marks: dict[str, float] = {}
    died: list[str] = []
    aftermath: list[Aftermath] = []
    first = begun.plan.frames
    while not watch.interrupted():
        event = load.next_event(SAMPLE_EVERY / 2)
        if event is not None:
            sampler.client(event)
        sampler.sample()
        if event is None:
            continue
        watch.show(event, sampler.pool())
        if event.kind in ("connected", "filled"):
            marks[event.kind] = time.monotonic()
        elif event.kind == "started":
            marks["started"] = event.t0
        elif event.kind == "judge":
            if setting.aftermath and judge(load.facts(), begun.plan).collapse.collapsed:
                marks["ended"] = time.monotonic()
                load.aftermath()
                continue
            longer = _longer(load.facts(), begun.plan, setting, first)
            if longer is None:
                break
            begun.plan = longer
            sampler.journal.begin(begun)
            load.extend(longer.frames, longer.allowed if setting.stop_when_failed else None)
        elif event.kind == "aftermath":
            aftermath.append(
                Aftermath(event.message, round(event.seconds, 3), event.connected, event.answered, event.frames)
            )
        elif event.kind == "stopped":
            break
        elif event.kind in ("failed", "died"):
            if "started" not in marks:
                raise event.error()
            died.append(event.message)
            break
    marks.setdefault("ended", time.monotonic())
    return marks, died, aftermath


def _longer(facts: RunFacts, plan: Plan, setting: Setting, first: int) -> Plan | None:
    """The plan to go on with while the run is unresolved; None when it is decided or long enough."""
    if not setting.extend_unresolved or plan.frames * 2 > first * MAX_SPAN_FACTOR:
        return None
    if judge(facts, plan).outcome is not Outcome.UNRESOLVED:
        return None
    return extended(plan, 2)


def _slowdown(server: Server, begin: float, end: float, shares: dict[str, float]) -> float | None:
    """The slowest spell of any metered core in between; an engine's core that rested says nothing."""
    busy = shares.get("engine", 0.0) >= BUSY
    meters = (server.engine_meter if busy else None, server.beside_meter)
    found = [meter.worst(begin, end) for meter in meters if meter is not None]
    return max((value for value in found if value is not None), default=None)


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else round(end - begin, 3)
