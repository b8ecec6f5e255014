"""Model profiles: the facts of a model that decide its load and its memory, each figure with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from metrobench.errors import UsageError
from metrobench.policy import parse_policy
from metrobench.resources import data_folder
from metrobench.tomlfile import read_struct, refuse, shipped_or_own
from metrobench.units import CHUNK

GPU_TABLE = "gpus.toml"
"""The one file in the folder of profiles that is none (metrobench.gpus)."""
ROLLING_POSITIONS = 131_072
"""max_model_len of an engine whose model's positions roll for ever: 2.9 h at 12.5 positions a second."""


class Decoder(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The decoder that holds a session's KV cache."""

    architecture: str
    """vLLM's name for it, for runs with `--weights dummy`."""
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    weight_bytes: int
    """Bytes of GPU memory that all stages' weights take, bf16."""
    max_positions: int | None = None
    """Most tokens one request may reach; absent: positions roll for ever, as only a native window lets them."""
    native_window: int | None = None
    """Newest positions that the model itself attends to; absent: all of them."""
    kv_dtype_bytes: int = 2
    kv_layers: int | None = None
    """Layers that keep KV, where not all do."""
    experts: int | None = None
    """Experts of each layer of a mixture of experts; absent: a dense model."""
    experts_per_token: int | None = None
    expert_width: int | None = None
    """Width of one expert, as `intermediate` is of a dense layer."""

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache per resident token: 2 (K and V) x layers x KV heads x head dim x bytes."""
        layers = self.layers if self.kv_layers is None else self.kv_layers
        return 2 * layers * self.kv_heads * self.head_dim * self.kv_dtype_bytes

    @property
    def request_positions(self) -> int:
        """Most tokens one request may reach in an engine, which needs a limit even where the model has none."""
        return ROLLING_POSITIONS if self.max_positions is None else self.max_positions


class Timing(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Rates of one session."""

    unit_ms: float
    """Milliseconds of audio in one frame."""
    sample_rate: int
    """Hz of the input audio."""
    tokens_in: int
    """Tokens one frame adds to the context."""
    tokens_out_listening: int
    """Tokens decoded in a frame while the user speaks; at least 1."""
    tokens_out_speaking: int
    """Tokens decoded in a frame while the model speaks."""

    @property
    def unit(self) -> float:
        """Seconds of audio in one frame."""
        return self.unit_ms / 1000.0

    @property
    def most_tokens(self) -> int:
        """Most tokens that one frame adds to the context."""
        return self.tokens_in + max(self.tokens_out_speaking, self.tokens_out_listening)


class Stage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Another stage with state of its own for every session on the same GPU: an audio encoder, a talker, a codec."""

    session_bytes: int | None = None
    """Most bytes that one session's state takes; absent: not known, and left out of every sum."""
    bytes_per_second: int | None = None
    """How fast that state grows while the stage works; absent: it does not grow, or the rate is not known."""


class ReferenceGpu(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The GPU whose KV pool the stand-in copies, in tokens."""

    name: str
    memory_bytes: int
    utilisation: float
    """Fraction of the memory that the engine may use for weights and KV."""


class StandIn(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The small transformer that runs in the model's place on a machine with no GPU."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    block_size: int = 32


class Profile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One model profile."""

    name: str
    title: str
    budget_ms: float
    """Default frame budget B in milliseconds."""
    kv: str
    """Default KV policy."""
    decoder: Decoder
    timing: Timing
    reference_gpu: ReferenceGpu
    stand_in: StandIn
    sources: dict[str, str] = {}
    """Where each figure comes from, by dotted name."""
    stages: dict[str, Stage] = {}
    """The model's other stages, by name."""
    not_shown: str = ""
    """What a run of the decoder alone, and so of a stand-in, cannot show of this model."""

    @property
    def budget(self) -> float:
        """Default frame budget B in seconds."""
        return self.budget_ms / 1000.0

    @property
    def stage_bytes(self) -> int:
        """Bytes that one session takes at most in the other stages, as far as it is known."""
        return sum(stage.session_bytes or 0 for stage in self.stages.values())

    @property
    def reference_pool_tokens(self) -> int:
        """Tokens of KV that fit beside the weights on the reference GPU, no other stage counted."""
        return self.pool_tokens(self.reference_gpu.memory_bytes)

    def pool_tokens(self, memory_bytes: int) -> int:
        """Tokens of KV that fit beside the weights in a GPU's memory (arithmetic, no activations)."""
        free = memory_bytes * self.reference_gpu.utilisation - self.decoder.weight_bytes
        return max(0, int(free // self.decoder.kv_bytes_per_token))


@dataclass(frozen=True, slots=True)
class _Bound:
    path: str
    low: float
    high: float

    def problems(self, value: float | None, where: str = "") -> Iterator[str]:
        """Why a value is out of bounds; an absent one is not."""
        if value is not None and not self.low <= value <= self.high:
            yield f"{where}{self.path} = {value:g} is outside {self.low:g} to {self.high:g}"


_BOUNDS = (
    _Bound("budget_ms", 1, 600_000),
    _Bound("timing.unit_ms", 20, 60_000),
    _Bound("timing.sample_rate", 8_000, 96_000),
    _Bound("timing.tokens_in", 1, 4_096),
    _Bound("timing.tokens_out_listening", 1, 4_096),
    _Bound("timing.tokens_out_speaking", 1, 4_096),
    _Bound("reference_gpu.utilisation", 0.01, 1.0),
    _Bound("reference_gpu.memory_bytes", 1e8, 1e13),
    *(
        _Bound(f"{part}.{name}", 1, 1e7)
        for part in ("decoder", "stand_in")
        for name in ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim")
    ),
    # below 32 there is no room for audio above the markers
    _Bound("decoder.vocab", 32, 1e7),
    _Bound("stand_in.vocab", 32, 1e7),
    _Bound("decoder.max_positions", 64, 1e9),
    _Bound("decoder.native_window", 1, 1e6),
    _Bound("decoder.weight_bytes", 1, 1e13),
    _Bound("decoder.kv_dtype_bytes", 1, 8),
    _Bound("decoder.kv_layers", 1, 1e7),
    _Bound("decoder.experts", 1, 65_536),
    _Bound("decoder.experts_per_token", 1, 65_536),
    _Bound("decoder.expert_width", 1, 1e7),
    _Bound("stand_in.block_size", 8, 1_024),
)
_STAGE_BOUNDS = (_Bound("session_bytes", 1, 1e12), _Bound("bytes_per_second", 1, 1e12))


def load_profile(name_or_path: str) -> Profile:
    """A shipped profile by name, or one's own TOML file by path. Raises UsageError."""
    path = profile_path(name_or_path)
    profile = read_struct(path, Profile, "profile")
    refuse(path, "profile", list(_problems(profile)))
    return profile


def profile_path(name_or_path: str) -> Path:
    """The file of a shipped profile by name, or one's own by path. Raises UsageError."""
    return shipped_or_own(
        name_or_path,
        data_folder("profiles"),
        profile_names(),
        what="profile",
        called="model",
        hint="`metrobench profiles` lists them.",
    )


def profile_names() -> list[str]:
    """Names of the shipped profiles."""
    return sorted(path.stem for path in data_folder("profiles").glob("*.toml") if path.name != GPU_TABLE)


def figure(profile: Profile, path: str) -> Any:
    """The profile's figure of a dotted name, `decoder.layers`; None where it is absent or nothing has that name."""
    value: Any = profile
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def _problems(profile: Profile) -> Iterator[str]:
    """What is wrong in a profile whose fields have the right types."""
    for bound in _BOUNDS:
        yield from bound.problems(figure(profile, bound.path))
    for name in ("name", "reference_gpu.name"):
        if not figure(profile, name):
            yield f"{name} is empty"
    yield from _policy_problems(profile)
    yield from _shape_problems(profile)
    yield from _timing_problems(profile.timing)
    for name, stage in profile.stages.items():
        for bound in _STAGE_BOUNDS:
            yield from bound.problems(getattr(stage, bound.path), f"stages.{name}.")
        if stage.session_bytes is None and stage.bytes_per_second is None:
            yield f"stages.{name} needs session_bytes, bytes_per_second or both"


def _policy_problems(profile: Profile) -> Iterator[str]:
    try:
        parse_policy(profile.kv)
    except UsageError as error:
        yield error.message.replace("--kv", "kv =", 1)


def _shape_problems(profile: Profile) -> Iterator[str]:
    decoder = profile.decoder
    for part, shape in (("decoder", decoder), ("stand_in", profile.stand_in)):
        if shape.kv_heads > 0 and shape.heads % shape.kv_heads:
            yield f"{part}.heads must be a multiple of {part}.kv_heads"
    if decoder.kv_layers is not None and decoder.kv_layers > decoder.layers:
        yield "decoder.kv_layers must be at most decoder.layers"
    if decoder.max_positions is None and decoder.native_window is None:
        yield "decoder.max_positions is missing: only a model with a native_window has no limit"
    if decoder.native_window is not None and decoder.native_window >= decoder.request_positions:
        yield f"decoder.native_window must be below {decoder.request_positions} positions"
    mixture = (decoder.experts, decoder.experts_per_token, decoder.expert_width)
    if any(mixture) and not all(mixture):
        yield "decoder.experts, decoder.experts_per_token and decoder.expert_width go together"
    elif (decoder.experts_per_token or 0) > (decoder.experts or 0):
        yield "decoder.experts_per_token must be at most decoder.experts"


def _timing_problems(timing: Timing) -> Iterator[str]:
    chunk_ms = round(CHUNK * 1000)
    if timing.unit_ms % chunk_ms:
        yield f"timing.unit_ms must be a multiple of {chunk_ms}"
    if timing.sample_rate * chunk_ms % 1000:
        yield f"timing.sample_rate must give whole samples in {chunk_ms} ms"
