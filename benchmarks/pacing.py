"""How well the load process keeps its schedule, measured at an independent server on another core.

`python benchmarks/pacing.py [--protocol NAME,...] [--sessions 200,1000] [--seconds 15]` runs the real load process
against the server of benchmarks/sink.py. The load process gets nice -10 where that is allowed: other work on the
machine shall not count.
For every chunk: error = arrival at the sink - scheduled time (same machine, same clock, transport included);
and the relative error e_k = (t_k - t_0) - (A_k - A_0), arrival against audio received since the first chunk.
Targets: 200 sessions p99 <= 1 ms, 1,000 sessions p99 <= 5 ms, load process <= 200 MB at 200 sessions; 300 sessions
p99 <= 5 ms with kyutai-stt and moshi.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from wires import WIRES

from metrobench.corpus.manifest import default_clips
from metrobench.endpoints.base import Access
from metrobench.endpoints.registry import fit
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent, LoadSpec
from metrobench.measure.client import histogram_quantile
from metrobench.measure.facts import RunFacts
from metrobench.schedule import Schedule
from metrobench.units import CHUNK

NICE = -10
SKIP = 50
"""Chunks of each session that are left out at the start: the first second."""


def run(protocol: str, sessions: int, seconds: float, unit: float | None, folder: Path) -> dict[str, Any]:
    """One run for a model with frames of `unit` seconds (None: those that suit the protocol); its figures in
    milliseconds, per cent and megabytes."""
    wire = WIRES[protocol]
    audio = fit(protocol, unit or wire.unit, wire.rate)
    cores = sorted(os.sched_getaffinity(0))
    out = folder / "arrivals.npz"
    command = [sys.executable, str(Path(__file__).with_name("sink.py")), "--out", str(out), "--protocol", protocol]
    command += ["--core", str(cores[0]), "--unit", str(audio.unit), "--first-ready", str(audio.first_ready)]
    command += ["--nap-us", "250" if sessions > 400 else "0"]
    sink = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sink.stdout is not None and sink.stdin is not None
    hello = json.loads(sink.stdout.readline())
    frames = max(1, int(seconds / audio.unit))
    spec = LoadSpec(
        protocol=protocol,
        url=f"ws://127.0.0.1:{hello['port']}/v1/realtime",
        sessions=sessions,
        budget=audio.unit,
        unit=audio.unit,
        first_ready=audio.first_ready,
        sample_rate=audio.sample_rate,
        access=Access(model="sink"),
        spread=1.0,
        seed=1,
        clips=default_clips(),
        cut_frames=0,
        frames=frames,
        max_frames=frames,
        cores=frozenset(cores[-1:]),
        spool=folder / "spool",
    )
    try:
        with LoadProcess(spec) as load:
            load.start()
            if load.pid is not None:
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, load.pid, NICE)
            events, waited = _stream(load)
            facts = load.facts()
    finally:
        sink.stdin.close()
        sink.wait(30)
    with np.load(out) as file:
        arrivals = [file[name] for name in file.files]
    figures = {"protocol": protocol} | _figures(spec.schedule(), wire.step, arrivals, events, facts)
    return {"sink": hello["scheduler"], **figures, "waited %": 100.0 * waited / facts.t_stop}


def _stream(load: LoadProcess) -> tuple[list[LoadEvent], float]:
    """Events of the run, and the seconds in which the load process was ready to run and had no core."""
    events, before, waited = [], 0.0, 0.0
    for event in load.events(60.0):
        events.append(event)
        if event.kind in ("failed", "died"):
            raise event.error()
        if event.kind == "started":
            before = _waited(load)
        if event.kind == "judge":
            waited = _waited(load) - before
            load.stop(10.0)
    return events, waited


def _waited(load: LoadProcess) -> float:
    return int(Path(f"/proc/{load.pid}/schedstat").read_text().split()[1]) * 1e-9


def _figures(
    schedule: Schedule, step: int, arrivals: list[npt.NDArray[np.float64]], events: list[LoadEvent], facts: RunFacts
) -> dict[str, Any]:
    t0 = next(event.t0 for event in events if event.kind == "started")
    progress = [event for event in events if event.kind == "progress"]
    first, last = progress[0], progress[-1]
    absolute, relative = errors(schedule, step, arrivals, t0)
    magnitude = np.abs(relative)
    answered = facts.frames["t_done"] - facts.frames["t_ready"]
    replies = answered[np.isfinite(answered)]
    return {
        "sessions": schedule.sessions,
        "chunks": len(absolute),
        "p50": np.median(absolute) * 1e3,
        "p99": np.quantile(absolute, 0.99) * 1e3,
        "max": absolute.max() * 1e3,
        "early": int((absolute < 0).sum()),
        "rel p50": np.median(relative) * 1e3,
        "rel p99": np.quantile(magnitude, 0.99) * 1e3,
        "rel max": magnitude.max() * 1e3,
        "own p99": (histogram_quantile(facts.lag_counts, 0.99) or 0.0) * 1e3,
        "stalls/s": len(facts.stalls) / facts.t_stop,
        "reply p50": float(np.median(replies)) * 1e3 if len(replies) else None,
        "cpu %": 100.0 * (last.cpu - first.cpu) / (last.t - first.t),
        "rss MB": max(event.rss for event in progress) / 1e6,
        "rss first MB": first.rss / 1e6,
        "seconds": facts.t_stop,
    }


def errors(
    schedule: Schedule, step: int, arrivals: list[npt.NDArray[np.float64]], t0: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Pooled absolute and relative errors in seconds of what arrives after every `step` chunks. Connections are matched
    to sessions by the rank of their phase: the sink does not know who is who."""
    apart, skip = step * CHUNK, -(-SKIP // step)
    arrivals = [times for times in arrivals if len(times) > skip]
    seen = [np.median(times - t0 - (np.arange(len(times)) + 1) * apart) for times in arrivals]
    phases = np.sort(schedule.phases)
    absolute, relative = [], []
    for rank, number in enumerate(np.argsort(seen)):
        times = arrivals[number]
        audio = np.arange(len(times)) * apart
        absolute.append((times - t0 - phases[rank] - apart - audio)[skip:])
        relative.append(((times - times[0]) - audio)[skip:])
    return np.concatenate(absolute), np.concatenate(relative)


def held(runs: list[dict[str, Any]], limit: float) -> str:
    """The most sessions whose p99 is within `limit` ms, with no fewer that are not; for people."""
    most = 0
    for figures in sorted(runs, key=lambda figures: int(figures["sessions"])):
        if figures["p99"] > limit:
            return f"{most} within {limit:g} ms, not {figures['sessions']}"
        most = figures["sessions"]
    return f"{most} within {limit:g} ms"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="realtime", help=f"one or more of {','.join(WIRES)}, or all")
    parser.add_argument("--sessions", default="200,1000")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--unit", type=float, help="seconds of audio in a frame")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = list(WIRES) if options.protocol == "all" else options.protocol.split(",")
    if unknown := [name for name in names if name not in WIRES]:
        parser.error(f"no such protocol: {unknown[0]}; known: {', '.join(WIRES)}")
    for name in names:
        runs = []
        for number in (int(text) for text in options.sessions.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                figures = run(name, number, options.seconds, options.unit, Path(folder))
            runs.append(figures)
            line = json.dumps(figures) if options.json else _line(figures)
            print(line, flush=True)
        if not options.json:
            print(f"{name}: {held(runs, 1.0)} · {held(runs, 5.0)}", flush=True)


def _line(figures: dict[str, Any]) -> str:
    return " · ".join(f"{name} {_short(value)}" for name, value in figures.items())


def _short(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
