"""The scenario that the options of `predict-collapse --model` describe."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from metrobench.cli.options import MAX_SESSIONS
from metrobench.corpus.choice import choose_audio
from metrobench.corpus.stream import build_table
from metrobench.errors import UsageError
from metrobench.gpus import find_gpu
from metrobench.policy import parse_policy
from metrobench.predict.model import Pool
from metrobench.predict.scenario import Scenario
from metrobench.predict.talk import Voices, voices_of
from metrobench.profiles import Profile, load_profile
from metrobench.sizing import BLOCK
from metrobench.units import memory, parse_duration, parse_rate, percent
from metrobench.worker.features import SILENCE_DBFS

_GROUP = r"(\d{1,6})(?:@(\+?)([0-9a-z.]+))?"


def scenario(asked: dict[str, Any]) -> tuple[Scenario, str]:
    """The scenario, and its title. Raises UsageError."""
    if asked["model"] is None or asked["sessions"] is None:
        missing = "--model NAME" if asked["model"] is None else "--sessions N"
        raise UsageError(f"{missing} is missing", "for example --model minicpm-o --gpu H200 --sessions 64")
    profile = load_profile(asked["model"])
    ages, arrivals = _sessions(asked["sessions"], asked["rate"])
    pool, source, beside, where = _pool(profile, asked)
    policy = parse_policy(asked["kv"] or profile.kv, pool.block_size)
    talk: Voices | float = 0.5
    if asked["speaking"] is not None:
        talk = parse_rate(asked["speaking"], name="--speaking")
    elif profile.timing.tokens_out_listening != profile.timing.tokens_out_speaking:
        audio = choose_audio(*(asked[name] for name in ("audio", "language", "noise", "gain", "talk")))
        table = build_table(audio.files, profile.timing.sample_rate, audio.noise, audio.gain)
        talk = voices_of(table, SILENCE_DBFS, audio.talk)
    made = Scenario(
        profile=profile,
        pool=pool,
        pool_source=source,
        asked=policy,
        ages=ages,
        arrivals=arrivals,
        talk=talk,
        seed=asked["seed"],
        duration=None if asked["duration"] is None else parse_duration(asked["duration"], name="--duration"),
        beside_bytes=beside,
    )
    count = f"{len(ages)} session" + ("s" if len(ages) > 1 else "")
    return made, " · ".join((f"{profile.name} {where}", count, str(policy), "by arithmetic"))


def _sessions(text: str, rate: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Ages and arrivals in seconds, shape (sessions,), from `48,16@5m,20@+30s`."""
    ages: list[float] = []
    arrivals: list[float] = []
    for part in text.split(","):
        match = re.fullmatch(_GROUP, part.strip())
        if match is None:
            raise UsageError(f"--sessions {text!r} is not a number of sessions", "write 64, or 48,16@5m,20@+30s")
        count = int(match[1])
        time = parse_duration(match[3], name="--sessions age") if match[3] else 0.0
        if not 1 <= count <= MAX_SESSIONS or len(ages) + count > MAX_SESSIONS:
            raise UsageError(f"--sessions {text}: give 1 to {MAX_SESSIONS} sessions")
        ages += [0.0 if match[2] else time] * count
        arrivals += [time if match[2] else 0.0] * count
    comes = np.array(arrivals)
    if rate is not None:
        comes = comes + np.arange(len(ages)) / _rate(rate)
    return np.array(ages), comes


def _rate(text: str) -> float:
    """Sessions a second from `8/s`, `30/m`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)/(s|m|h)", text.strip())
    value = float(match[1]) / {"s": 1.0, "m": 60.0, "h": 3600.0}[match[2]] if match else 0.0
    if not value > 0.0:
        raise UsageError(f"--rate {text!r} is not a rate of arrival", "write for example 8/s or 30/m")
    return value


def _pool(profile: Profile, asked: dict[str, Any]) -> tuple[Pool, str, float | None, str]:
    """The pool, where it comes from, the memory left beside the engine, and where it runs, in words."""
    size = asked["block_size"] or BLOCK
    if asked["pool_tokens"] is not None:
        if asked["gpu"] is not None or asked["utilisation"] is not None or asked["kv_dtype"] is not None:
            raise UsageError("--pool-tokens is the pool itself", "leave out --gpu, --utilisation and --kv-dtype")
        pool = Pool(asked["pool_tokens"] // size + 1, size)
        source, beside, where = "given", None, f"with {asked['pool_tokens']:,} tokens of KV"
    else:
        pool, source, beside, where = _on_gpu(profile, asked, size)
    if pool.usable < 1:
        raise UsageError(f"a pool of {pool.usable * size} tokens has no block of {size}", "give it more room")
    return pool, source, beside, where


def _on_gpu(profile: Profile, asked: dict[str, Any], size: int) -> tuple[Pool, str, float | None, str]:
    own = profile.reference_gpu
    name, total = own.name, own.memory_bytes
    if asked["gpu"] is not None:
        gpu = find_gpu(asked["gpu"])
        name, total = gpu.name, gpu.memory_bytes
    share = own.utilisation if asked["utilisation"] is None else _share(asked["utilisation"])
    decoder = profile.decoder
    each = decoder.kv_bytes_per_token
    if asked["kv_dtype"] == "fp8":
        each = each // decoder.kv_dtype_bytes
    free = total * share - decoder.weight_bytes
    engine = f"{percent(share, 0)} of {total / 1e9:.4g} GB"
    if free < each * size * 2:
        raise UsageError(
            f"{profile.name} does not fit on {name}: its weights take {decoder.weight_bytes / 1e9:.3g} GB of {engine}",
            "choose a larger GPU, or give the pool with --pool-tokens",
        )
    source = f"{engine} less {decoder.weight_bytes / 1e9:.3g} GB of weights, {memory(each)} a token"
    return Pool(int(free // each) // size, size), source, total * (1.0 - share), f"on {_article(name)}"


def _share(text: str) -> float:
    """Up to and including all of it."""
    return 1.0 if text.strip() in ("1", "1.0", "100%") else parse_rate(text, name="--utilisation")


def _article(name: str) -> str:
    return name if name.startswith(("a ", "an ")) else f"{'an' if name[0] in 'AHLRMaeiou' else 'a'} {name}"
