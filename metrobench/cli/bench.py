"""What the measuring commands share: settings from options, a server to measure, a record that is always written."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from metrobench.cli.live import Interrupted, Interrupts, Live
from metrobench.cli.output import say
from metrobench.corpus.manifest import default_clips
from metrobench.endpoints.realtime import check_url
from metrobench.endpoints.registry import PROTOCOLS
from metrobench.environment import describe_machine
from metrobench.errors import MetrobenchError, UsageError
from metrobench.load.spec import LoadEvent
from metrobench.measure.plan import Slo
from metrobench.measure.warnings import Warn
from metrobench.policy import parse_policy
from metrobench.probe import Setting, Watch, discard_raw
from metrobench.probe_record import doubts
from metrobench.profiles import load_profile
from metrobench.records import SCHEMA, ProbeRecord, Record, RunFolder, now
from metrobench.report import html, jsonfile
from metrobench.servers import EmbeddedServer, ForeignServer, Server, resolve_weights
from metrobench.speed import SpeedMeter
from metrobench.units import parse_duration, parse_rate, parse_slo, percent, seconds
from metrobench.worker.cores import layout, threads_on
from metrobench.worker.launcher import ForkServer
from metrobench.worker.spec import STANDIN

DEFAULT_MISS_RATE = "1%"
INTERRUPT_CODE = 128
"""Exit codes of an interrupted command: 128 + the signal's number."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options that decide what is measured, as typed."""

    model: str
    budget: str | None
    miss_rate: str | None
    slo: str | None
    kv: str | None
    endpoint: str | None
    protocol: str
    weights: str
    pool_tokens: int | None
    seed: int


class Bench:
    """One measuring command at work."""

    def __init__(self, kind: str, request: Request, out: Path, quiet: bool) -> None:
        self.kind = kind
        self.request = request
        self.live = Live(quiet)
        self.interrupts = Interrupts()
        self.profile = load_profile(request.model)
        self.weights = STANDIN
        machine = describe_machine()
        if request.endpoint is None:
            self.weights = resolve_weights(request.weights, has_gpu=bool(machine.gpus))
        else:
            check_url(request.endpoint)
        if request.protocol not in PROTOCOLS:
            raise UsageError(f"unknown protocol {request.protocol!r}", f"known: {', '.join(PROTOCOLS)}")
        self.stand_in = request.endpoint is None and self.weights == STANDIN
        block = self.profile.stand_in.block_size if self.stand_in else 1
        self.policy = parse_policy(request.kv or self.profile.kv, block)
        self.budget = parse_duration(request.budget, name="budget") if request.budget else self.profile.budget
        if request.slo is not None and request.miss_rate is not None:
            raise UsageError("--slo and --miss-rate are two rules for one verdict", "give one of them")
        self.q = parse_rate(request.miss_rate or DEFAULT_MISS_RATE, name="--miss-rate")
        self.slo = Slo(*parse_slo(request.slo)) if request.slo is not None else None
        if request.endpoint is None:
            self._check_pool()
        self.folder = RunFolder.create(out, f"{kind}-{self.profile.name}")
        self.record = Record(
            schema=SCHEMA,
            kind=kind,
            status="running",
            created=now(),
            command=["metrobench", *sys.argv[1:]],
            environment=machine,
            profile=msgspec.to_builtins(self.profile),
            setting={},
            seed=request.seed,
            stand_in=self.stand_in,
        )
        self._begin = time.monotonic()

    def _check_pool(self) -> None:
        """Raises UsageError where not even one session can get full."""
        positions, full = self.profile.decoder.max_positions, self.policy.full_tokens
        room = self.profile.timing.most_tokens
        if full + room >= positions:
            raise UsageError(
                f"--kv {self.policy}: a full session and one frame need {full + room} positions, {self.profile.name}"
                f" has {positions}",
                "choose a smaller window",
            )
        pool = self.request.pool_tokens
        if pool is not None and pool < full + room:
            raise UsageError(
                f"--pool-tokens {pool}: one full session at {self.policy} and one frame need {full + room} tokens",
                "give the pool room for at least one session",
            )

    def setting(self, *, span: float | None, stop_when_failed: bool, extend_unresolved: bool) -> Setting:
        """The setting of this command's runs; noted in the record."""
        setting = Setting(
            profile=self.profile,
            policy=self.policy,
            protocol=self.request.protocol,
            budget=self.budget,
            q=self.q,
            slo=self.slo,
            span=span,
            clips=default_clips(),
            stop_when_failed=stop_when_failed,
            extend_unresolved=extend_unresolved,
        )
        self.record.setting = {
            "budget": self.budget,
            "q": self.q,
            "slo": msgspec.to_builtins(self.slo),
            "span": span,
            "kv": str(self.policy),
            "protocol": self.request.protocol,
            "endpoint": self.request.endpoint,
            "weights": self.weights if self.request.endpoint is None else None,
            "pool_tokens": self.request.pool_tokens,
            "clips": [clip.name for clip in setting.clips],
        }
        return setting

    @contextmanager
    def server(self) -> Iterator[Server]:
        """The server that the options name: an endpoint, or fresh embedded workers."""
        if self.request.endpoint is not None:
            yield ForeignServer(self.request.endpoint, self.request.protocol, can_fill=False)
            return
        cores = layout()
        self.live.status("loading vLLM (about 10 s, once)")
        forkserver = ForkServer(self.folder.path / "workers.log")
        with self.interrupts.at_once():
            forkserver.start()
        with forkserver, threads_on(cores.front):
            if not cores.engine_alone:
                self.warn(Warn.CORES_SHARED)
            engine, beside = SpeedMeter(cores.engine, warm_up=False), SpeedMeter(min(cores.load), warm_up=True)
            with engine, beside:
                yield EmbeddedServer(
                    forkserver,
                    cores,
                    self.profile,
                    self.policy,
                    self.weights,
                    self.request.pool_tokens,
                    self.request.seed,
                    engine,
                    beside if cores.engine_alone else None,
                )

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Run the command's body; whatever happens in it, record and page are complete and readable afterwards."""
        with self.interrupts:
            try:
                self.folder.write(self.record)
                yield
                self.record.status = "interrupted" if self.interrupts.signum else "complete"
            except Interrupted:
                self.record.status = "interrupted"
                raise
            except MetrobenchError as error:
                self.record.status, self.record.error = "failed", error.message
                raise
            except BaseException as error:
                self.record.status, self.record.error = "failed", f"{type(error).__name__}: {error}"
                raise
            finally:
                self.interrupts.finish()
                self.live.clear()
                self.record.wall_seconds = round(time.monotonic() - self._begin, 1)
                self.folder.write(self.record)
                self.live.status("writing the page")
                if complaint := html.write(self.folder, self.record):
                    self.live.line(complaint)
                self.live.clear()
                self.folder.close()

    def add(self, probe: ProbeRecord, folder: str) -> None:
        """Note one measured run, and its warnings."""
        probe.folder = folder
        self.record.probes.append(probe)
        for warning in doubts(probe):
            self.warn(warning)
        self.folder.write(self.record)
        discard_raw(self.folder.path / folder)

    def warn(self, warning: Warn) -> None:
        """Note a warning, each kind once."""
        self.record.warn(warning)

    def watch(self, title: str) -> Watch:
        """Progress of one run under `title`, interrupted by this command's signals."""
        return Watch(
            interrupted=lambda: self.interrupts.signum is not None,
            show=lambda event, kv: self.live.status(f"{title} · {_status(event, kv)}"),
        )

    def exit_code(self, code: int = 0) -> int:
        """The exit code: that of the signal where one came."""
        return INTERRUPT_CODE + self.interrupts.signum if self.interrupts.signum else code


def _status(event: LoadEvent, kv: float | None) -> str:
    """One event of the load process in a few words."""
    if event.kind == "connected":
        return f"{event.connected} connected" + (f", {event.refused} refused" if event.refused else "")
    if event.kind in ("filling", "filled"):
        return f"{event.filled} sessions ready" + (f", {event.refused} refused" if event.refused else "")
    if event.kind in ("progress", "judge"):
        words = [f"{event.t:.0f} s"]
        if event.due:
            words.append(f"missed {percent(event.missed / event.due)}")
        if event.p50 is not None and event.p99 is not None:
            words.append(f"p50 {seconds(event.p50)}, p99 {seconds(event.p99)}")
        if kv is not None:
            words.append(f"kv {percent(kv, 0)}")
        if event.closed or event.refused:
            words.append(f"{event.closed} closed, {event.refused} refused")
        return " · ".join(words)
    return event.kind


def print_json(record: Record | list[Record]) -> None:
    """The record on stdout, as run.json has it; several as a list."""
    say(jsonfile.text(record))
