"""The forecasts of a run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from metrobench.corpus.choice import Audio, choose_audio
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
    count = f"{found.sessions} session" + ("s" if found.sessions > 1 else "")
    parts = (
        f"{record.profile['name']}{stand_in}{which}",
        count,
        found.kv,
        f"{found.blocks:,} blocks of {found.block_size} tokens",
        folder.resolve().name,
    )
    title = " · ".join(parts)
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
    """The run's own audio, where it is still here as it was."""
    try:
        audio = _audio(setting)
        same = [clip.file for clip in audio.clips] == setting.get("clips")
        if not same or audio.describe()["audio_sha256"] != setting.get("audio_sha256"):
            return None
        return voices_of(build_table(audio.files, rate, audio.noise, audio.gain), SILENCE_DBFS, audio.talk)
    except UsageError:
        return None


def _audio(setting: dict[str, Any]) -> Audio:
    """What the options of the run named. Raises UsageError where that is not here any more."""
    named, language, noise = (setting.get(name) for name in ("audio", "language", "noise"))
    audio = choose_audio(named, language, noise, None, setting.get("talk", "half"))
    return replace(audio, gain=setting.get("gain_db", 0.0))
