"""Run folders of runs whose truth is known, as a measuring command leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from metrobench.environment import Environment
from metrobench.measure.facts import FRAME_DTYPE, RunFacts, SessionFacts
from metrobench.predict.model import Group, Pool, blocks_at, crossing
from metrobench.profiles import Profile, load_profile
from metrobench.records import SCHEMA, ProbeRecord, Record, RunFolder, now, write_facts
from metrobench.schedule import offset_of, phases

MEMORY = 24 << 30


def paper(sessions: int, pool: Pool, seed: int = 1) -> tuple[Profile, Group, float | None]:
    """Sessions of the paper's rates, every frame of which adds the same, and when they fill the pool."""
    profile = load_profile("minicpm-o-paper")
    starts = phases(sessions, profile.budget, offset_of(seed))
    group = Group(starts, 1.0, 28, np.zeros(sessions, dtype=np.int64))
    return profile, group, crossing(pool, [group])


def probe_of(pool: Pool, sessions: int, collapse: dict[str, Any], seed: int = 1) -> ProbeRecord:
    """What the run's record says of it, as far as a forecast reads it."""
    server = {
        "kind": "embedded",
        "num_blocks": pool.blocks,
        "block_size": pool.block_size,
        "max_model_len": 4096,
        "peak_blocks": None,
        "device": "cpu",
    }
    return ProbeRecord(
        index=1,
        sessions=sessions,
        folder=".",
        seed=seed,
        started=now(),
        outcome="failed",
        reasons=[],
        span_seconds=60.0,
        wall_seconds=80.0,
        start_seconds=1.0,
        fill_seconds=None,
        verdict={"collapse": collapse},
        cpu_shares={},
        kv_peak=1.0,
        waiting_peak=None,
        close_reasons=[],
        steal=None,
        prefix_hit_tokens=None,
        server=server,
    )


def facts_of(group: Group, end: float) -> RunFacts:
    """Sessions that stayed open until `end`; their frames do not matter here."""
    sessions = [SessionFacts(number, float(start)) for number, start in enumerate(group.starts)]
    return RunFacts(np.empty(0, dtype=FRAME_DTYPE), sessions, 1.0, 1.0, 1.0, t_stop=end)


def telemetry_of(group: Group, pool: Pool, end: float) -> list[dict[str, float | None]]:
    """Two samples a second from before t0 on."""
    rows: list[dict[str, float | None]] = []
    for t in np.arange(-2.0, end, 0.5):
        held = min(blocks_at(group, float(t), pool.block_size), pool.usable) if t > 0 else 0
        tokens = float((group.growth * group.frames(float(t))).sum())
        rows.append(
            {
                "t": float(t),
                "kv_usage": held / pool.usable if t > 1.0 else None,
                "resident_tokens": tokens,
                "front_rss": 5e8 + 2e4 * float(t),
                "engine_rss": 9e8,
            }
        )
    return rows


def folder_of(parent: Path, pool: Pool, sessions: int, seconds: float, *, collapses: bool = True) -> Path:
    """The folder of an unbounded run of the paper's rates that was streamed for so many seconds."""
    profile, group, full = paper(sessions, pool)
    onset = None if full is None or full > seconds or not collapses else [full - 0.1, full + profile.budget]
    collapse = {"kind": "none" if onset is None else "stall", "onset": onset}
    probe = probe_of(pool, sessions, collapse)
    record = Record(
        schema=SCHEMA,
        kind="run",
        status="complete",
        created=now(),
        command=["metrobench", "run"],
        environment=Environment("Linux", "a CPU", 2, MEMORY, None, [], {}),
        profile=msgspec.to_builtins(profile),
        setting={"kv": "unbounded", "clips": [], "budget": 1.0},
        seed=1,
        stand_in=True,
        probes=[probe],
    )
    folder = RunFolder.create(parent, "run-minicpm-o-paper")
    write_facts(folder.path, facts_of(group, seconds), telemetry_of(group, pool, seconds))
    folder.write(record)
    folder.close()
    return folder.path
