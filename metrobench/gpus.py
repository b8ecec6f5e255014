"""The GPUs that sessions are counted for: memory, each with its source (profiles/gpus.toml)."""

from __future__ import annotations

import difflib
import re

import msgspec

from metrobench.errors import UsageError
from metrobench.profiles import GPU_TABLE
from metrobench.resources import data_folder
from metrobench.tomlfile import read_struct


class Gpu(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One GPU."""

    name: str
    memory_bytes: int
    """As it is sold, in units of 10^9 bytes."""
    source: str


class _Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    gpu: list[Gpu]


def load_gpus() -> list[Gpu]:
    """All GPUs, in the order of the file. Raises UsageError."""
    return read_struct(data_folder("profiles") / GPU_TABLE, _Table, "table of GPUs").gpu


def find_gpu(name: str) -> Gpu:
    """A GPU by its name, whatever its capitals, blanks and dashes. Raises UsageError."""
    known = {_key(gpu.name): gpu for gpu in load_gpus()}
    if _key(name) not in known:
        close = difflib.get_close_matches(_key(name), known, n=1)
        hint = f"did you mean {known[close[0]].name}?" if close else "metrobench profiles show smoke names them all"
        raise UsageError(f"unknown GPU {name!r}", hint)
    return known[_key(name)]


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
