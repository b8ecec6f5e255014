"""The forecasts of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metrobench.corpus.manifest import default_clips
from metrobench.corpus.stream import build_table
from metrobench.errors import NotValidError, UsageError
from metrobench.policy import parse_policy
from metrobench.predict.review import Review, review
from metrobench.predict.talk import Rates, Voices, voices_of
from metrobench.records import ProbeRecord, Record, read_facts, read_record, read_telemetry
from metrobench.worker.features import SILENCE_DBFS


def reviewed(folder: Path, number: int | None) -> tuple[Review, str]:
    """All forecasts of one measured run of a folder, and a title. Raises UsageError, NotValidError."""
    record = read_record(folder)
    folder = folder if folder.is_dir() else folder.parent
    probe = _chosen(record, number, folder)
    facts, telemetry = read_facts(folder / probe.folder), read_telemetry(folder / probe.folder)
    timing = record.profile["timing"]
    rates = Rates(
        unit=timing["unit_ms"] / 1000.0,
        listening=timing["tokens_in"] + timing["tokens_out_listening"] - 1,
        speaking=timing["tokens_in"] + timing["tokens_out_speaking"] - 1,
    )
    policy = parse_policy(probe.kv or record.setting["kv"])
    voices = None if rates.constant or policy.bounded else _voices(record.setting, timing["sample_rate"])
    memory = record.environment.memory_bytes
    found = review(probe, facts, telemetry, policy, rates, timing["tokens_in"], voices, memory)
    which = f" · run {probe.index} of {len(record.probes)}" if len(record.probes) > 1 else ""
    stand_in = " (stand-in)" if record.stand_in else ""
    title = (
        f"{record.profile['name']}{stand_in}{which} · {found.sessions} sessions · {found.kv} · {found.blocks:,} blocks"
        f" of {found.block_size} tokens · {folder.resolve().name}"
    )
    return found, title


def _chosen(record: Record, number: int | None, folder: Path) -> ProbeRecord:
    if not record.probes:
        why = f": {record.error}" if record.error else ""
        raise NotValidError(f"nothing was measured in {folder}{why}")
    if number is None:
        return max(record.probes, key=lambda probe: probe.kv_peak or 0.0)
    for probe in record.probes:
        if probe.index == number:
            return probe
    raise UsageError(f"--probe {number}: {folder} has measured runs 1 to {len(record.probes)}")


def _voices(setting: dict[str, Any], rate: int) -> Voices | None:
    """The run's own audio, where it is the shipped corpus as it is now."""
    clips = default_clips()
    if [clip.name for clip in clips] != setting.get("clips"):
        return None
    return voices_of(build_table(clips, rate), SILENCE_DBFS)
