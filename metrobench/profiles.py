"""Model profiles: the facts of a model that decide its load and its memory, each figure with its source."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from metrobench.errors import UsageError
from metrobench.resources import data_folder


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
    max_positions: int
    """Most tokens one request may reach."""
    weight_bytes: int
    """Bytes of GPU memory that all stages' weights take, bf16."""
    kv_dtype_bytes: int = 2
    kv_layers: int | None = None
    """Layers that keep KV, where not all do."""

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache per resident token: 2 (K and V) x layers x KV heads x head dim x bytes."""
        layers = self.layers if self.kv_layers is None else self.kv_layers
        return 2 * layers * self.kv_heads * self.head_dim * self.kv_dtype_bytes


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
    sources: dict[str, str]
    """Where each figure comes from, by dotted name."""

    @property
    def budget(self) -> float:
        """Default frame budget B in seconds."""
        return self.budget_ms / 1000.0

    @property
    def reference_pool_tokens(self) -> int:
        """Tokens of KV that fit beside the weights on the reference GPU (arithmetic, no activations)."""
        free = self.reference_gpu.memory_bytes * self.reference_gpu.utilisation - self.decoder.weight_bytes
        return max(0, int(free // self.decoder.kv_bytes_per_token))


@dataclass(frozen=True, slots=True)
class _Bound:
    path: str
    low: float
    high: float


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
        for name in ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab")
    ),
    _Bound("decoder.max_positions", 64, 1e9),
    _Bound("decoder.weight_bytes", 1, 1e13),
    _Bound("stand_in.block_size", 8, 1_024),
)


def load_profile(name_or_path: str) -> Profile:
    """A shipped profile by name, or one's own TOML file by path. Raises UsageError."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or "/" in name_or_path:
        if not path.is_file():
            raise UsageError(f"no profile file at {name_or_path}")
        return _read(path)
    names = profile_names()
    if name_or_path not in names:
        close = difflib.get_close_matches(name_or_path, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}."
        raise UsageError(f"unknown model {name_or_path!r}", f"{hint} A path to a .toml profile works too.")
    return _read(data_folder("profiles") / f"{name_or_path}.toml")


def profile_names() -> list[str]:
    """Names of the shipped profiles."""
    return sorted(path.stem for path in data_folder("profiles").glob("*.toml"))


def _read(path: Path) -> Profile:
    try:
        with path.open("rb") as file:
            profile = msgspec.convert(tomllib.load(file), Profile)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"profile {path.name} cannot be read: {error}") from error
    for bound in _BOUNDS:
        value = _field(profile, bound.path)
        if not bound.low <= value <= bound.high:
            limits = f"{bound.low:g} to {bound.high:g}"
            raise UsageError(f"profile {path.name}: {bound.path} = {value:g} is outside {limits}")
    for part in ("decoder", "stand_in"):
        heads, kv_heads = _field(profile, f"{part}.heads"), _field(profile, f"{part}.kv_heads")
        if heads % kv_heads:
            raise UsageError(f"profile {path.name}: {part}.heads must be a multiple of {part}.kv_heads")
    if profile.timing.unit_ms % 20:
        raise UsageError(f"profile {path.name}: timing.unit_ms must be a multiple of 20")
    return profile


def _field(profile: Profile, path: str) -> float:
    value: Any = profile
    for part in path.split("."):
        value = getattr(value, part)
    return float(value)
