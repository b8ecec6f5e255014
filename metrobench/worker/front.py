"""The worker process: engine adapter, gateway and telemetry on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import socket
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from metrobench.errors import MetrobenchError, UnreachableError, UsageError
from metrobench.worker import channel, cores, osproc
from metrobench.worker.admission import Admission
from metrobench.worker.conversation import Shared
from metrobench.worker.engine import VllmEngine, device_name
from metrobench.worker.features import Extractor
from metrobench.worker.gateway import Gateway
from metrobench.worker.sessions import SessionRules
from metrobench.worker.spec import WorkerInfo, WorkerSpec, decode_spec
from metrobench.worker.turnstile import Turnstile

SAMPLE_EVERY = 0.5
"""Seconds between telemetry samples."""


def run(spec: bytes, folder: Path, end: socket.socket, telemetry: int) -> int:
    """Serve until killed. Reports Ready or Failed, and later Dead, on `end`. Returns an exit code."""
    import uvloop

    wanted = decode_spec(spec)
    _redirect(wanted.log)
    _raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(wanted, folder, end, telemetry))
    except MetrobenchError as error:
        channel.send(end, channel.Failed(error.message, error.hint, isinstance(error, UsageError)))
    return 1


def _redirect(log: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(spec: WorkerSpec, folder: Path, end: socket.socket, telemetry: int) -> int:
    if spec.engine_cores is not None:
        cores.pin(spec.engine_cores)
    engine = VllmEngine(spec, folder)
    if spec.front_cores is not None:
        cores.pin_all_threads(spec.front_cores)
    budget = spec.budget_or_profile
    admission = Admission(spec.admission, budget, engine.stats, engine.kv_sessions, spec.max_sessions)
    gateway = Gateway(engine, _shared(spec, engine), admission)
    try:
        port = await gateway.start(spec.host, spec.port)
    except OSError as error:
        raise UnreachableError(f"cannot listen on {spec.host}:{spec.port}: {error.strerror or error}") from error
    gc.collect()
    gc.freeze()
    info = _info(spec, engine, port)
    channel.send(end, channel.Ready(msgspec.Raw(msgspec.json.encode(info))))
    sampling = asyncio.create_task(_sample(engine, gateway, admission, telemetry))
    reason = await engine.died()
    gateway.engine_died(reason)
    with contextlib.suppress(OSError):
        channel.send(end, channel.Dead(reason))
    await sampling
    return 1


def _shared(spec: WorkerSpec, engine: VllmEngine) -> Shared:
    timing = spec.profile.timing
    samples = round(timing.sample_rate * timing.unit)
    return Shared(
        model=spec.profile.name,
        engine_name=f"vllm {_version('vllm')}",
        stand_in=spec.stand_in,
        kv=str(engine.policy),
        unit_ms=timing.unit_ms,
        sample_rate=timing.sample_rate,
        extractor=Extractor(timing.sample_rate, samples, timing.tokens_in, engine.vocab, spec.seed),
        rules=SessionRules(
            listening=timing.tokens_out_listening,
            speaking=timing.tokens_out_speaking,
            tokens_in=timing.tokens_in,
            max_model_len=engine.max_model_len,
            policy=engine.policy,
            guard=spec.guard_positions,
            seed=spec.seed,
        ),
        turnstile=Turnstile(spec.order, spec.budget_or_profile) if spec.order.most else None,
    )


def _info(spec: WorkerSpec, engine: VllmEngine, port: int) -> WorkerInfo:
    pid = engine.pid()
    front, back = cores.cores_of(os.getpid()), cores.cores_of(pid)
    return WorkerInfo(
        port=port,
        vllm_version=_version("vllm"),
        torch_version=_version("torch"),
        device=device_name(),
        stand_in=spec.stand_in,
        model=spec.profile.name,
        policy=str(engine.policy),
        block_size=engine.block_size,
        num_blocks=engine.num_blocks,
        pool_tokens=(engine.num_blocks - 1) * engine.block_size,
        max_model_len=engine.max_model_len,
        max_sessions=spec.max_sessions,
        kv_sessions=engine.kv_sessions,
        peak_blocks=engine.peak_blocks,
        front_pid=os.getpid(),
        engine_pid=pid,
        front_cores=front,
        engine_cores=back,
        shared_core=bool(set(front) & set(back)),
    )


def _version(module: str) -> str:
    return str(getattr(sys.modules[module], "__version__", "unknown"))


async def _sample(engine: VllmEngine, gateway: Gateway, admission: Admission, telemetry: int) -> None:
    """Append one JSON line every SAMPLE_EVERY to the telemetry memory."""
    pid = engine.pid()
    due = time.monotonic()
    while True:
        due += SAMPLE_EVERY
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        sample = _snapshot(engine, gateway, pid) | {"admission_cap": admission.door.controller.cap}
        os.write(telemetry, msgspec.json.encode(sample) + b"\n")


def _snapshot(engine: VllmEngine, gateway: Gateway, pid: int) -> dict[str, Any]:
    stats, sessions = engine.stats, gateway.sessions
    return {
        "t": time.monotonic(),
        "engine_cpu": osproc.cpu_seconds(pid),
        "front_cpu": time.process_time(),
        "engine_rss": osproc.rss_bytes(pid),
        "front_rss": osproc.rss_bytes(os.getpid()),
        "kv_usage": stats.kv_usage,
        "running": stats.running,
        "waiting": stats.waiting,
        "deferred": stats.deferred,
        "resident_tokens": float(sum(session.resident for session in sessions)),
        "backlog": float(sum(session.backlog for session in sessions)),
        "prefix_hits": stats.prefix_hits,
        "preemptions": stats.preemptions,
        "frames": float(stats.frames),
        "engine_seconds": stats.engine_seconds,
    }
