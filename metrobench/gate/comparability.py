"""What must be the same for two records to be compared (measurement.md, Statistics), and what is not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from metrobench.gate.samples import Sample

NAMES = {
    "profile": "model profile",
    "weights": "what ran: a stand-in, weights, an endpoint",
    "policy": "KV policy",
    "sessions": "sessions of a run",
    "budget": "frame budget B",
    "miss-rate": "allowed miss rate q",
    "objective": "latency objective",
    "time": "measured time T of a run",
    "audio": "corpus, noise, gain, talk",
    "seed": "seeds of phases and audio",
    "effort": "replicates and width of the search",
    "pool": "KV pool",
    "protocol": "wire protocol",
    "vllm-args": "vLLM arguments",
    "processor": "processor of the machine that measured",
    "cores": "its cores",
    "gpus": "its GPUs",
    "engine": "version of the engine",
    "schema": "schema of the record",
}
"""Conditions by the name that `--allow` takes, and what they are."""
ABSENT = "not recorded"


class Difference(Struct, frozen=True):
    """One condition that is not the same."""

    name: str
    baseline: str
    current: str
    allowed: bool
    """By --allow."""


def differences(baseline: Sequence[Sample], current: Sequence[Sample], allow: Collection[str]) -> list[Difference]:
    """All conditions in which the two sides, or the records of one side, are not alike."""
    found = []
    for name in NAMES:
        before, now = (_values(side, name) for side in (baseline, current))
        if name == "seed" and _seeds_fit(before, now):
            continue
        if len({*before, *now}) > 1:
            found.append(Difference(name, ", ".join(before), ", ".join(now), name in allow))
    return found


def _seeds_fit(before: Sequence[str], now: Sequence[str]) -> bool:
    """The same seeds, or several on either side, so that neither side rests on one order of audio and phases."""
    return set(now) <= set(before) or min(len(before), len(now)) > 1


def _values(samples: Sequence[Sample], name: str) -> list[str]:
    return list(dict.fromkeys(sample.conditions.get(name, ABSENT) for sample in samples))
