"""One run of an open system: a server, sessions that come and go by a timetable, the facts on disk, the findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from metrobench.admission.timetable import Timetable
from metrobench.errors import UnreachableError
from metrobench.journal import Journal
from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadSpec
from metrobench.measure.facts import RunFacts
from metrobench.measure.open_system import OpenSystem, open_system
from metrobench.measure.telemetry import Row, peak, since
from metrobench.probe import SAMPLE_EVERY, Sampler, Setting, Watch, describe, load_spec, store
from metrobench.servers import Server

CAP = "admission_cap"
"""The telemetry's name for the cap of the worker's controller."""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """What one run found."""

    findings: OpenSystem
    server: dict[str, Any]
    """What the server said of itself."""
    caps: list[tuple[float, float]]
    """Seconds from t0 and the controller's cap, where the server shows one."""
    rho: list[tuple[float, float]]
    """The same for the share of the KV pool in use."""
    kv_peak: float | None
    complaints: list[str]
    """What went wrong beside the measurement."""
    whole: bool = True
    """It went on until the last session had left; False: it was ended before."""


def open_probe(
    setting: Setting, server: Server, timetable: Timetable, full: bool, seed: int, folder: Path, watch: Watch
) -> OpenRun:
    """Offer all sessions of `timetable` to a fresh server and store the facts under `folder`.

    `full`: sessions are filled before their audio begins, where the policy has a full state and the server can do that.
    Raises UnreachableError when no session could ever be opened.
    """
    fill = setting.policy.full_tokens if full and server.can_fill else 0
    complaints: list[str] = []
    with server.fresh(len(timetable), folder / "server.log") as running:
        spec = _spec(setting, server, running.url, timetable, fill, seed, folder / "spool")
        sampler = Sampler(running, Journal(spec.spool), cores=server.cores)
        with LoadProcess(spec) as load:
            load.start()
            began, whole = _follow(load, sampler, watch, complaints)
            load.stop()
            facts = load.facts()
        death, says = running.death(), describe(server, running)
    complaints += [f"the server died: {death}"] if death else []
    rows = since(sampler.rows, began)
    complaints += store(folder, facts, rows)
    return replace(conclude(facts, rows, says, complaints), whole=whole)


def conclude(facts: RunFacts, rows: list[Row], server: dict[str, Any], complaints: list[str]) -> OpenRun:
    """What facts and telemetry (`t` from t0) say."""
    return OpenRun(
        findings=open_system(facts),
        server=server,
        caps=_series(rows, CAP),
        rho=_series(rows, "kv_usage"),
        kv_peak=peak(rows, "kv_usage"),
        complaints=complaints,
    )


def _spec(
    setting: Setting, server: Server, url: str, timetable: Timetable, fill: int, seed: int, spool: Path
) -> LoadSpec:
    """The load process's orders: those of a closed run of as many sessions, with the timetable."""
    frames = max(timetable.frames)
    plan = setting.short_plan(frames, len(timetable))
    spec = load_spec(setting, server, url, plan, seed, fill, spool)
    return replace(spec, mode="open", timetable=timetable, max_frames=frames, stop_after_misses=None)


def _follow(load: LoadProcess, sampler: Sampler, watch: Watch, complaints: list[str]) -> tuple[float | None, bool]:
    """Watch the run to its end; when it started, CLOCK_MONOTONIC seconds, and whether it came to its end by itself."""
    began: float | None = None
    while True:
        if watch.interrupted():
            return began, False
        event = load.next_event(SAMPLE_EVERY / 2)
        if event is not None:
            sampler.client(event)
        sampler.sample()
        if event is None:
            continue
        watch.show(event, sampler.pool())
        if event.kind == "started":
            began = event.t0
        elif event.kind == "stopped":
            break
        elif event.kind in ("failed", "died"):
            error = event.error()
            if began is None or isinstance(error, UnreachableError) or event.kind == "failed":
                raise error
            complaints.append(event.message)
            break
    return began, True


def _series(rows: list[Row], name: str) -> list[tuple[float, float]]:
    known = [(row["t"], row.get(name)) for row in rows]
    return [(round(t, 2), round(value, 4)) for t, value in known if t is not None and value is not None]
