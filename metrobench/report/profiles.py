"""Model profiles as plain text and as data: rates, memory for a session, sessions on a GPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from metrobench.gpus import Gpu
from metrobench.policy import UNBOUNDED, KvPolicy, parse_policy
from metrobench.profiles import Profile, Timing, figure
from metrobench.report.layout import hang, wrap
from metrobench.sizing import (
    BLOCK,
    HALF,
    LISTENING,
    SPEAKING,
    kv_bytes_per_minute,
    positions_last,
    session_bytes,
    sessions,
    tokens_per_second,
    window_full_after,
)
from metrobench.units import memory, percent, seconds

HORIZONS = (300.0, 1800.0)
"""Seconds that unbounded sessions are to last, in the table of GPUs."""
HEADINGS = ("model", "budget", "frame", "in/s", "out/s", "KV/min", "window", "sessions")


class Row(msgspec.Struct, frozen=True):
    """A profile in the table of all."""

    name: str
    title: str
    budget: float
    """Seconds."""
    unit: float
    """Seconds of audio in a frame."""
    tokens_in_per_second: float
    tokens_out_per_second: tuple[float, float]
    """Smaller and larger of listening and speaking."""
    kv_bytes_per_minute: float
    """Growth of the decoder's KV that no window bounds, speaking half of the time."""
    kv: str
    sessions: int
    """That the reference GPU has memory for at the profile's policy."""
    gpu: str


class Fit(msgspec.Struct, frozen=True):
    """Sessions on one GPU."""

    gpu: str
    memory_bytes: int
    weights_fit: bool
    unbounded: list[int | None]
    """For each of HORIZONS; None where the model's positions do not last so long."""
    at_policy: int


class Sizes(msgspec.Struct, frozen=True):
    """The arithmetic of a profile. The triples are for listening, half and half, speaking."""

    kv_bytes_per_token: int
    tokens_per_second: tuple[float, float, float]
    kv_bytes_per_minute: tuple[float, float, float]
    positions_last: tuple[float | None, float | None, float | None]
    """Seconds until one request has used up the positions; None: never."""
    window_full_after: tuple[float | None, float | None, float | None]
    """Seconds until a new session is full; None: never."""
    stage_bytes: int
    session_bytes: int | None
    """Bytes of a full session with its other stages; None where the policy bounds nothing."""
    horizons: tuple[float, ...]
    gpus: list[Fit]


def row(profile: Profile) -> Row:
    """One line of the table."""
    timing, policy = profile.timing, parse_policy(profile.kv)
    low, high = sorted((timing.tokens_out_listening, timing.tokens_out_speaking))
    return Row(
        name=profile.name,
        title=profile.title,
        budget=profile.budget,
        unit=timing.unit,
        tokens_in_per_second=timing.tokens_in / timing.unit,
        tokens_out_per_second=(low / timing.unit, high / timing.unit),
        kv_bytes_per_minute=kv_bytes_per_minute(profile, HALF),
        kv=str(policy),
        sessions=sessions(profile, policy, profile.reference_gpu.memory_bytes, HORIZONS[0]),
        gpu=profile.reference_gpu.name,
    )


def sizes(profile: Profile, gpus: list[Gpu]) -> Sizes:
    """The arithmetic of one profile on some GPUs."""
    policy = parse_policy(profile.kv)
    shares = (LISTENING, HALF, SPEAKING)
    return Sizes(
        kv_bytes_per_token=profile.decoder.kv_bytes_per_token,
        tokens_per_second=_triple([tokens_per_second(profile, talk) for talk in shares]),
        kv_bytes_per_minute=_triple([kv_bytes_per_minute(profile, talk) for talk in shares]),
        positions_last=_triple([positions_last(profile, talk) for talk in shares]),
        window_full_after=_triple([window_full_after(profile, policy, talk) for talk in shares]),
        stage_bytes=profile.stage_bytes,
        session_bytes=session_bytes(profile, policy),
        horizons=HORIZONS,
        gpus=[_fit(profile, policy, gpu) for gpu in gpus],
    )


def _triple(values: list[Any]) -> Any:
    return tuple(values)


def _fit(profile: Profile, policy: KvPolicy, gpu: Gpu) -> Fit:
    last = positions_last(profile, SPEAKING)
    free = parse_policy(UNBOUNDED)
    return Fit(
        gpu=gpu.name,
        memory_bytes=gpu.memory_bytes,
        weights_fit=profile.pool_tokens(gpu.memory_bytes) > 0,
        unbounded=[
            None if last is not None and last < horizon else sessions(profile, free, gpu.memory_bytes, horizon)
            for horizon in HORIZONS
        ],
        at_policy=sessions(profile, policy, gpu.memory_bytes, HORIZONS[0]),
    )


def table(rows: list[Row]) -> str:
    """All profiles, one line each, and what the columns mean."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    gpus = Counter(row.gpu for row in rows)
    usual = gpus.most_common(1)[0][0]
    others = "".join(f"; {row.name}: {row.gpu}" for row in rows if row.gpu != usual)
    notes = [
        ("in/s, out/s", "tokens a second of audio, and decoded while listening and speaking (the fewer first)"),
        ("KV/min", "what a minute adds to a session that no window bounds, speaking half of it"),
        ("window", "the default KV policy: tokens kept, + attention sinks"),
        ("sessions", f"full ones that fit at that policy, other stages included, by arithmetic ({usual}{others})"),
    ]
    lines = [*_columns(cells, left=1), ""]
    for name, text in notes:
        lines += hang(f"{name:<13}", text)
    return "\n".join([*lines, "", "metrobench profiles show NAME says everything about one, sources included."])


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.tokens_out_per_second
    return (
        row.name,
        seconds(row.budget),
        seconds(row.unit),
        f"{row.tokens_in_per_second:.3g}",
        f"{low:.3g}" if low == high else f"{low:.3g}-{high:.3g}",
        memory(row.kv_bytes_per_minute),
        row.kv.removeprefix("window:"),
        str(row.sessions),
    )


def show(profile: Profile, found: Sizes) -> str:
    """One profile: rates, shape, memory, sessions on GPUs, and the source of each figure."""
    lines = [*wrap(f"{profile.name}: {profile.title}"), ""]
    for name, text in _facts(profile, found):
        lines += hang(f"{name:<10}", text)
    lines += ["", *_gpu_table(profile, found), "", "sources"]
    return "\n".join(lines + _sources(profile))


def _sources(profile: Profile) -> list[str]:
    """Each source once, below the figures that are from it."""
    figures: dict[str, list[str]] = {}
    for path, source in profile.sources.items():
        figures.setdefault(source, []).append(f"{path}{_value(figure(profile, path))}")
    lines = []
    for source, named in figures.items():
        lines += [*wrap(", ".join(named), indent="  "), *wrap(source, indent="      ")]
    return lines


def _value(value: Any) -> str:
    if value is None:
        return ""
    return f" = {value:,}" if isinstance(value, int) else f" = {value:g}" if isinstance(value, float) else f" = {value}"


def _facts(profile: Profile, found: Sizes) -> list[tuple[str, str]]:
    facts = [
        ("rates", _rates(profile.timing)),
        ("budget", f"{seconds(profile.budget)} a frame"),
        ("decoder", _shape(profile)),
        ("weights", f"{profile.decoder.weight_bytes / 1e9:.3g} GB in bf16, all stages"),
        ("KV", f"{memory(found.kv_bytes_per_token)} a token; without a window a minute adds {_growth(found)}"),
        ("positions", _positions(profile, found)),
        ("policy", _policy(profile, found)),
    ]
    facts += [("stage" if index == 0 else "", text) for index, text in enumerate(_stages(profile))]
    if profile.not_shown:
        facts.append(("not shown", profile.not_shown))
    return facts


def _growth(found: Sizes) -> str:
    listening, half, speaking = (memory(value) for value in found.kv_bytes_per_minute)
    if listening == speaking:
        return half
    return f"{half} ({listening} listening, {speaking} speaking, half of the time each)"


def _rates(timing: Timing) -> str:
    tokens = f"{timing.tokens_in} token" + ("s" if timing.tokens_in > 1 else "")
    return (
        f"frames of {seconds(timing.unit)} at {timing.sample_rate / 1000:g} kHz: {tokens} in,"
        f" {timing.tokens_out_listening} decoded listening, {timing.tokens_out_speaking} speaking"
    )


def _shape(profile: Profile) -> str:
    decoder = profile.decoder
    words = [f"{decoder.layers} layers of {decoder.hidden}", f"{decoder.heads} heads, {decoder.kv_heads} for KV"]
    words.append(f"of {decoder.head_dim} each")
    if decoder.experts:
        words.append(f"{decoder.experts_per_token} of {decoder.experts} experts of {decoder.expert_width}")
    return f"{', '.join(words)}, vocabulary {decoder.vocab:,} (vLLM: {decoder.architecture})"


def _positions(profile: Profile, found: Sizes) -> str:
    listening, _, speaking = found.positions_last
    if profile.decoder.max_positions is None:
        return "roll for ever: no request uses them up"
    text = f"{profile.decoder.max_positions:,}"
    if speaking is None or listening is None:
        return text
    if listening == speaking:
        return f"{text}: one request has used them up after {seconds(speaking)}"
    first, last = sorted((("listening", listening), ("speaking", speaking)), key=lambda pair: pair[1])
    return f"{text}: one request has used them up after {seconds(first[1])} {first[0]}, {seconds(last[1])} {last[0]}"


def _policy(profile: Profile, found: Sizes) -> str:
    policy = parse_policy(profile.kv)
    words = [f"{policy} by default"]
    window = profile.decoder.native_window
    if window is not None:
        words.append(f"the model itself attends to {window:,} positions")
    full = found.window_full_after[1]
    if full is not None:
        words.append(f"a new session is full after {seconds(full)}")
    if found.session_bytes is not None:
        stages = f" and {memory(found.stage_bytes)} of other stages" if found.stage_bytes else ""
        words.append(f"then it takes {memory(found.session_bytes - found.stage_bytes)} of KV{stages} at its peak")
    return "; ".join(words)


def _stages(profile: Profile) -> list[str]:
    texts = []
    for name, stage in profile.stages.items():
        words = [f"up to {memory(stage.session_bytes)} a session"] if stage.session_bytes else []
        if stage.bytes_per_second:
            words.append(f"grows by {memory(stage.bytes_per_second)} a second while it works")
        if stage.session_bytes is None:
            words.append("in no sum, for how long it is kept is not known")
        texts.append(f"{name}: {', '.join(words)}")
    return texts


def _gpu_table(profile: Profile, found: Sizes) -> list[str]:
    policy = str(parse_policy(profile.kv))
    cells = [("GPU", "memory", *(f"unbounded {seconds(horizon)}" for horizon in found.horizons), policy)]
    for fit in found.gpus:
        counts = ["no room"] * (len(fit.unbounded) + 1)
        if fit.weights_fit:
            counts = [*("-" if count is None else str(count) for count in fit.unbounded), str(fit.at_policy)]
        cells.append((fit.gpu, f"{fit.memory_bytes / 1e9:.3g} GB", *counts))
    share = percent(profile.reference_gpu.utilisation, 0)
    note = (
        f"Sessions that one GPU has memory for, by arithmetic: {share} of it less the weights of all stages, blocks of"
        f" {BLOCK} tokens; at {policy} for ever, unbounded for so long, speaking all the time."
    )
    if any(None in fit.unbounded for fit in found.gpus):
        note += " -: the positions do not last so long."
    if profile.decoder.native_window is not None:
        note += " unbounded: as if the model attended to more than its own window."
    return [*_columns(cells, left=1), "", *wrap(note)]


def _columns(cells: list[tuple[str, ...]], left: int) -> list[str]:
    """Rows in columns, the first `left` of them flush left."""
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = []
    for line in cells:
        words = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return lines
