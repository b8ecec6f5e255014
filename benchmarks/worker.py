"""What a fresh embedded worker costs: `python benchmarks/worker.py [--model minicpm-o] [--runs 10] [--sessions 64]`.

Prints one JSON object: seconds of the preload, from launch to ready, and to the first answered frame; milliseconds to
fill one session's window; resident megabytes; what `--runs` workers in a row left behind; and the gateway's CPU
microseconds for one 20 ms append and for one 1 s unit's features, with no engine behind it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from metrobench.policy import parse_policy
from metrobench.profiles import Profile, load_profile
from metrobench.worker import osproc
from metrobench.worker.conversation import Conversation, Shared
from metrobench.worker.cores import layout
from metrobench.worker.engine import Chunk, EngineStats, Output
from metrobench.worker.features import Extractor
from metrobench.worker.launcher import MALLOC, ForkServer, Worker
from metrobench.worker.preload import ENVIRONMENT
from metrobench.worker.sessions import SessionRules
from metrobench.worker.spec import STANDIN, WorkerSpec

RATE = 16_000


def spec_of(profile: Profile, sessions: int, log: Path) -> WorkerSpec:
    plan = layout()
    policy = parse_policy(profile.kv, profile.stand_in.block_size)
    return WorkerSpec(profile, policy, sessions, None, STANDIN, 1, plan.front, plan.engine, log)


async def open_session(url: str, fill: int) -> ClientConnection:
    socket = await connect(url, ping_interval=None)
    own = {"metrobench": {"fill_tokens": fill}} if fill else {}
    audio = {"input": {"format": {"type": "audio/pcm", "rate": RATE}}}
    await socket.send(json.dumps({"type": "session.update", "session": {"audio": audio, **own}}))
    return socket


async def until(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        event: dict[str, Any] = json.loads(await socket.recv())
        if event["type"] == kind:
            return event


def append(seconds: float) -> str:
    pcm = (8000 * np.sin(np.arange(round(RATE * seconds)) / 3)).astype("<i2").tobytes()
    return json.dumps(
        {"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()}, separators=(",", ":")
    )


async def first_frame(worker: Worker, unit: float) -> None:
    socket = await open_session(worker.url, 0)
    await socket.send(append(unit))
    await until(socket, "metrobench.frame.done")
    await socket.close()


async def fill(worker: Worker, sessions: int, tokens: int) -> float:
    sockets = [await open_session(worker.url, 0) for _ in range(sessions)]
    for socket in sockets:
        await until(socket, "session.updated")
    started = time.monotonic()
    for socket in sockets:
        await socket.send(json.dumps({"type": "session.update", "session": {"metrobench": {"fill_tokens": tokens}}}))
    for socket in sockets:
        await until(socket, "session.updated")
    spent = time.monotonic() - started
    for socket in sockets:
        await socket.close()
    return spent / sessions


class NoEngine:
    """Answers every chunk at once."""

    vocab = 4096
    stats = EngineStats()

    async def stream(self, request: str, chunks: AsyncGenerator[Chunk, None]) -> AsyncIterator[Output]:
        async for chunk in chunks:
            yield Output([0] * chunk.decode, True)


async def gateway_cost(profile: Profile, seconds: int = 200) -> dict[str, float]:
    """CPU microseconds: one append of 20 ms at the model's rate, features apart, and the features of one unit."""
    timing = profile.timing
    samples = round(timing.sample_rate * timing.unit)
    extractor = Extractor(timing.sample_rate, samples, timing.tokens_in, NoEngine.vocab)
    rules = SessionRules(
        listening=timing.tokens_out_listening,
        speaking=timing.tokens_out_speaking,
        tokens_in=timing.tokens_in,
        max_model_len=10**9,
        policy=parse_policy("unbounded"),
        guard=True,
        seed=1,
    )
    shared = Shared(profile.name, "none", True, "none", timing.unit_ms, timing.sample_rate, extractor, rules)
    talk = Conversation(NoEngine(), 1, shared, lambda _: None, lambda *_: None)
    form = {"type": "audio/pcm", "rate": timing.sample_rate}
    talk.receive(json.dumps({"type": "session.update", "session": {"audio": {"input": {"format": form}}}}).encode())
    message = append(0.02).encode()
    per_unit = round(timing.unit_ms / 20)
    spent = 0.0
    for _ in range(seconds):
        started = time.process_time()
        for _ in range(per_unit - 1):
            talk.receive(message)
        spent += time.process_time() - started
        talk.receive(message)
        await asyncio.sleep(0)
    audio, before = np.full(samples, 500, dtype=np.int16), np.zeros(extractor.history, dtype=np.int16)
    started = time.process_time()
    for _ in range(seconds):
        extractor.unit(audio, before)
    features = (time.process_time() - started) / seconds
    talk.gone()
    return {"append_us": spent / seconds / (per_unit - 1) * 1e6, "features_us": features * 1e6}


def left_behind(server: ForkServer) -> dict[str, int]:
    assert server._process is not None and server._root is not None
    return {
        "processes": len(osproc.tree(server._process.pid)) - 1,
        "worker_folders": sum(path.name.startswith("worker-") for path in server._root.iterdir()),
        "sockets": Path("/proc/net/unix").read_text().count(str(server._root)),
        "shm": sum(1 for _ in Path("/dev/shm").iterdir()),
        "fds": sum(1 for _ in Path(f"/proc/{server._process.pid}/fd").iterdir()),
        "rss_mb": round((osproc.rss_bytes(server._process.pid) or 0) / 1e6),
    }


def measure(model: str, runs: int, sessions: int) -> dict[str, Any]:
    profile = load_profile(model)
    ready, served, figures = [], [], dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with ForkServer(log) as server:
            figures["preload_s"] = round(server.preload_seconds, 2)
            before = left_behind(server)
            for _ in range(runs):
                started = time.monotonic()
                worker = server.launch(spec_of(profile, sessions, log))
                ready.append(worker.info.start_seconds)
                asyncio.run(first_frame(worker, profile.timing.unit))
                served.append(time.monotonic() - started)
                worker.kill()
            figures["left_behind"] = {"before": before, "after": left_behind(server)}
            worker = server.launch(spec_of(profile, sessions, log))
            tokens = parse_policy(profile.kv).full_tokens
            figures["fill_ms_per_session"] = round(asyncio.run(fill(worker, sessions, tokens)) * 1e3, 1)
            pids = {"engine": worker.info.engine_pid, "front": worker.info.front_pid}
            figures["rss_mb_full"] = {name: round((osproc.rss_bytes(pid) or 0) / 1e6) for name, pid in pids.items()}
            worker.kill()
    figures["ready_s"] = [round(value, 2) for value in (min(ready), statistics.median(ready), max(ready))]
    figures["first_frame_s"] = [round(value, 2) for value in (min(served), statistics.median(served), max(served))]
    figures |= {name: round(value, 2) for name, value in asyncio.run(gateway_cost(profile)).items()}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="minicpm-o")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=64)
    given = parser.parse_args()
    if os.environ.get("GLIBC_TUNABLES") != MALLOC["GLIBC_TUNABLES"]:
        # Memory and threads as in the gateway's process.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MALLOC | ENVIRONMENT)
    figures = measure(given.model, given.runs, given.sessions)
    figures["cores"] = len(os.sched_getaffinity(0))
    json.dump(figures, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
