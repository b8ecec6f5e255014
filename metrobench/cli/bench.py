"""What the measuring commands share: settings from options, a server to measure, a record that is always written."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from metrobench.cli import config, consent
from metrobench.cli.access import read_access, without_secrets
from metrobench.cli.live import Interrupts, Live
from metrobench.cli.progress import alarm, status
from metrobench.cli.recording import recording
from metrobench.cli.request import Request, check_recording
from metrobench.cli.resuming import open_again, reopen
from metrobench.cli.vllm_args import parse_vllm
from metrobench.corpus.choice import choose_audio
from metrobench.corpus.pattern import speech_share
from metrobench.corpus.stream import build_table, save_table
from metrobench.endpoints.base import Access, FrameClass, check_url
from metrobench.endpoints.registry import fit, needs_model, schemes
from metrobench.environment import describe_machine
from metrobench.errors import UsageError
from metrobench.gate.samples import Pair
from metrobench.load.connect import tls_of
from metrobench.load.detect import AUTO, detect, served_model
from metrobench.load.spec import LoadEvent
from metrobench.measure.plan import Slo
from metrobench.measure.warnings import Warn
from metrobench.policy import KvPolicy, parse_policy
from metrobench.probe import Kv, Setting, Watch, discard_raw
from metrobench.probe_record import doubts
from metrobench.profiles import load_profile
from metrobench.records import SCHEMA, ProbeRecord, Record, RunFolder, now
from metrobench.restart import Restart
from metrobench.servers import EmbeddedServer, ForeignServer, Server, check_room, resolve_weights
from metrobench.speed import SpeedMeter
from metrobench.units import CHUNK, parse_duration, parse_rate, parse_slo, rate, seconds
from metrobench.worker.cores import layout, threads_on
from metrobench.worker.features import SILENCE_DBFS
from metrobench.worker.launcher import ForkServer, need_vllm
from metrobench.worker.spec import STANDIN

ONLY_LISTENS = 0.9
"""Share of units with speech above which a stand-in, which answers where it hears none, hardly answers."""
EMBEDDED = "realtime"
"""The embedded worker's protocol."""
DEFAULT_MISS_RATE = "1%"
INTERRUPT_CODE = 128
"""Exit codes of an interrupted command: 128 + the signal's number."""


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
        self.on_gpu = bool(machine.gpus)
        self.vllm_args = parse_vllm(request.vllm_args)
        if request.endpoint is None:
            self.weights = resolve_weights(request.weights, has_gpu=self.on_gpu)
        else:
            check_url(request.endpoint)
        self.restart = self._restart(request)
        if request.slow is not None and request.endpoint is not None:
            raise UsageError("--slow is for the embedded worker, not for --endpoint")
        check_recording(request)
        self.slow = parse_rate(request.slow, name="--slow") if request.slow else 0.0
        self.access, self.protocol = self._access(request)
        self.stream = fit(self.protocol, self.profile.timing.unit, self.profile.timing.sample_rate)
        self.stand_in = request.endpoint is None and self.weights == STANDIN
        self.policy = self.on_blocks(request.kv)
        self.budget = self._budget(request.budget)
        if request.slo is not None and request.miss_rate is not None:
            raise UsageError("--slo and --miss-rate are two rules for one verdict", "give one of them")
        self.q = parse_rate(request.miss_rate or DEFAULT_MISS_RATE, name="--miss-rate")
        self.slo = Slo(*parse_slo(request.slo)) if request.slo is not None else None
        if request.endpoint is None:
            check_room(self.profile, self.policy, request.pool_tokens)
            need_vllm()
        self._given: Path | None = None
        self._label = ""
        self.folder: RunFolder
        self.out = out
        self.audio = choose_audio(request.audio, request.language, request.noise, request.gain, request.talk)
        self.record = Record(
            schema=SCHEMA,
            kind=kind,
            status="running",
            created=now(),
            command=["metrobench", *without_secrets(sys.argv[1:])],
            environment=machine,
            profile=msgspec.to_builtins(self.profile),
            setting={},
            seed=request.seed,
            stand_in=self.stand_in,
        )
        self._begin = time.monotonic()
        self._end = math.inf
        self._name_config()

    def _access(self, request: Request) -> tuple[Access, str]:
        """What the endpoint wants, and its protocol: that of the option, or what the endpoint answers to.

        Raises UsageError and UnreachableError.
        """
        access = read_access(
            request.headers,
            request.token_env,
            request.token_file,
            request.served_model,
            request.session,
            request.ca_file,
            request.insecure,
        )
        if request.endpoint is None:
            if access != Access():
                raise UsageError("headers, tokens and certificates go with --endpoint")
            if request.protocol != EMBEDDED:
                raise UsageError(f"--protocol {request.protocol} goes with --endpoint")
            return access, EMBEDDED
        tls_of(request.endpoint, access)
        protocol = request.protocol
        if protocol == AUTO:
            self.live.status(f"asking {request.endpoint} which protocol it speaks")
            found = detect(request.endpoint, access)
            self.live.clear()
            self.live.line(f"protocol {found.protocol}: {found.why}")
            protocol = found.protocol
        check_url(request.endpoint, schemes(protocol))
        if request.record_wire is not None and "ws" not in schemes(protocol):
            raise UsageError(f"--record-wire writes down WebSockets, and {protocol} has none")
        fit(protocol, self.profile.timing.unit, self.profile.timing.sample_rate)
        if needs_model(protocol) and not access.model:
            access = msgspec.structs.replace(access, model=served_model(request.endpoint, access))
            self.live.line(f"model {access.model}: the only one that the endpoint serves")
        return access, protocol

    def _budget(self, asked: str | None) -> float:
        """B in seconds: as typed, the protocol's or the model's. Raises UsageError."""
        if asked is None:
            return self.profile.budget if self.stream.budget is None else self.stream.budget
        budget = parse_duration(asked, name="budget")
        if self.stream.frame_class is FrameClass.SEGMENT and budget < self.stream.unit:
            raise UsageError(
                f"--budget {asked} is shorter than the segments of {seconds(self.stream.unit)} that are answered",
                "what it says within a segment may come at any time of the next one",
            )
        return budget

    def on_blocks(self, policy: str | None) -> KvPolicy:
        """A policy as typed (None: the profile's), on the blocks of what will run. Raises UsageError."""
        return parse_policy(policy or self.profile.kv, self.profile.stand_in.block_size if self.stand_in else 1)

    def resume(self, path: Path) -> None:
        """Go on with the record in a folder. Raises UsageError where its setting or its machine was another."""
        record = open_again(path, self.record)
        self._given = path
        record.status, record.error, record.result = "running", None, None
        record.resumed.append(now())
        record.warnings = []
        self.record = record
        for probe in record.probes:
            self._warn_of(probe)
        self._begin -= record.wall_seconds

    def _name_config(self) -> None:
        """Settings that stand in a file are said and recorded."""
        if (found := config.origin()) is not None:
            file, names = found
            self.record.config_file = file
            self.live.line(f"from {file}: {', '.join(names)}")

    def _restart(self, request: Request) -> Restart | None:
        """How the endpoint is made fresh. Raises UsageError for options that do not go together."""
        if request.endpoint is None:
            if request.restart_cmd is not None or request.health is not None:
                raise UsageError("--restart-cmd and --health go with --endpoint", "the embedded worker is always fresh")
            return None
        if self.vllm_args:
            raise UsageError("vLLM arguments go to the embedded worker, not to --endpoint")
        if request.restart_cmd is None:
            if request.health is not None:
                raise UsageError("--health goes with --restart-cmd")
            return None
        return Restart(request.restart_cmd, request.health or "", request.endpoint)

    @property
    def name(self) -> str:
        """The run folder's, after its date."""
        return f"{self.kind}-{self.profile.name}{self._label}"

    def pair_with(self, other: Bench | None, pair: Pair) -> None:
        """This record is one side of a pair; `other`: the side that follows the same signals and shows on one line."""
        self._label = f"-{pair.place}{pair.side}"
        self.record.setting["pair"] = msgspec.to_builtins(pair)
        if other is not None:
            self.live, self.interrupts = other.live, other.interrupts

    def limit_time(self, length: float | None) -> None:
        """From now on measure for at most `length` seconds; None: for as long as it takes."""
        self._end = math.inf if length is None else time.monotonic() + length

    @property
    def time_left(self) -> float:
        """Seconds of --max-time from now; below 0: it is over."""
        return self._end - time.monotonic()

    @property
    def stopped(self) -> bool:
        """A signal came, or the time is over: what is being measured ends."""
        return self.interrupts.signum is not None or self.time_left <= 0.0

    @property
    def fills(self) -> bool:
        """Sessions are to start with a full context, where the server can do that."""
        return self.policy.bounded and self.protocol == EMBEDDED

    def consent(self, sessions: int, duration: float) -> None:
        """Ask before somebody else's server gets up to `sessions` sessions for about `duration` seconds."""
        if self.request.endpoint is not None:
            consent.ask(self.request.endpoint, sessions, duration, self.request.yes)

    def setting(self, *, span: float | None, stop_when_failed: bool, extend_unresolved: bool) -> Setting:
        """The setting of this command's runs; noted in the record."""
        setting = Setting(
            profile=self.profile,
            policy=self.policy,
            protocol=self.protocol,
            access=self.access,
            record_wire=self.request.record_wire,
            budget=self.budget,
            q=self.q,
            slo=self.slo,
            span=span,
            clips=self.audio.files,
            noise=self.audio.noise,
            gain=self.audio.gain,
            talk=self.audio.talk,
            stop_when_failed=stop_when_failed,
            extend_unresolved=extend_unresolved,
        )
        self.record.setting = {
            "budget": self.budget,
            "q": self.q,
            "slo": msgspec.to_builtins(self.slo),
            "span": span,
            "kv": str(self.policy),
            "protocol": self.protocol,
            "frame_class": self.stream.frame_class.value,
            "served_model": self.access.model or None,
            "endpoint": self.request.endpoint,
            "weights": self.weights if self.request.endpoint is None else None,
            "pool_tokens": self.request.pool_tokens,
            "restart_cmd": self.request.restart_cmd,
            "health": self.request.health,
            "vllm_args": self.vllm_args,
            "slow": self.slow,
            **self.audio.describe(),
        }
        return setting

    @property
    def _table(self) -> Path:
        """The audio prepared once for all runs, and beside it what a codec makes of it; until the command ends."""
        return self.folder.path / ".audio.npz"

    def with_audio(self, setting: Setting) -> Setting:
        """The setting with its audio decoded once for all runs; while the record is being made. Raises UsageError."""
        audio = self.audio
        self.live.status("decoding the audio")
        try:
            table = build_table(audio.files, self.stream.sample_rate, audio.noise, audio.gain)
        except UsageError as error:
            hint = error.hint or f"metrobench corpus verify {audio.pack.name} shows all that is wrong with it"
            raise UsageError(error.message, hint) from error
        save_table(self._table, table)
        if self.stand_in:
            unit = max(1, round(self.profile.timing.unit / CHUNK))
            share = speech_share(table, audio.talk, unit, SILENCE_DBFS)
            self.record.setting["audio_speech"] = round(share, 2)
            if share > ONLY_LISTENS:
                self.warn(Warn.ONLY_LISTENS)
        return replace(setting, table=self._table)

    @contextmanager
    def server(self) -> Iterator[Server]:
        """The server that the options name: an endpoint, or fresh embedded workers."""
        if self.request.endpoint is not None:
            yield ForeignServer(
                self.request.endpoint,
                self.protocol,
                can_fill=self.protocol == EMBEDDED,
                restart=self.restart,
                stop=lambda: self.stopped,
            )
            return
        with self.embedded() as server:
            yield server

    @contextmanager
    def embedded(self) -> Iterator[EmbeddedServer]:
        """Fresh embedded workers, forked from a process that loads vLLM now."""
        cores = layout(gpu=self.on_gpu)
        if self.slow:
            self.warn(Warn.SLOWED)
            self.live.line(f"every engine step is made {rate(self.slow)} longer on purpose (--slow)")
        self.live.status("loading vLLM (about 10 s, once)")
        forkserver = ForkServer(self.folder.path / "workers.log", self.profile.stand_in if self.stand_in else None)
        with self.interrupts.at_once():
            forkserver.start()
        with forkserver, threads_on(cores.front):
            if not cores.engine_alone:
                self.warn(Warn.CORES_SHARED)
            engine, beside = SpeedMeter(min(cores.engine), warm_up=False), SpeedMeter(min(cores.load), warm_up=True)
            with engine, beside:
                yield EmbeddedServer(
                    forkserver,
                    cores,
                    self.profile,
                    self.policy,
                    self.weights,
                    self.request.pool_tokens,
                    self.request.seed,
                    None if self.on_gpu else engine,
                    beside if cores.engine_alone else None,
                    self.vllm_args,
                    self.slow,
                )

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Run the command's body; whatever happens in it, record and page are complete and readable afterwards."""
        self.folder = RunFolder.create(self.out, self.name) if self._given is None else reopen(self._given)
        with recording(self.record, self.folder, self.live, self.interrupts, self._begin, self._drop_audio):
            yield

    def _drop_audio(self) -> None:
        for kept in self.folder.path.glob(f"{self._table.stem}.*"):
            kept.unlink(missing_ok=True)

    def add(self, probe: ProbeRecord, folder: str) -> None:
        """Note one measured run and its warnings; one that was cut short after whole ones decides nothing, and warns of
        nothing."""
        probe.folder = folder
        self.record.probes.append(probe)
        self._warn_of(probe)
        self.folder.write(self.record)
        discard_raw(self.folder.path / folder)

    def _warn_of(self, probe: ProbeRecord) -> None:
        decides = probe.outcome != "interrupted" or self.record.probes == [probe]
        for warning in doubts(probe) if decides else []:
            self.warn(warning)

    def warn(self, warning: Warn) -> None:
        """Note a warning, each kind once."""
        self.record.warn(warning)

    def watch(self, title: str, length: float | None = None) -> Watch:
        """Progress of one run of about `length` seconds under `title`, ended by this command's signals and time."""

        def show(event: LoadEvent, kv: Kv | None) -> None:
            if event.kind == "alarm":
                self.live.line(f"{title} · {alarm(event)}")
            else:
                self.live.status(f"{title} · {status(event, kv, length)}")

        return Watch(interrupted=lambda: self.stopped, show=show)

    def exit_code(self, code: int = 0) -> int:
        """The exit code: that of the signal where one came."""
        return INTERRUPT_CODE + self.interrupts.signum if self.interrupts.signum else code
