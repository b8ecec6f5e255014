"""vLLM's own arguments, written after `--`, by the names of AsyncEngineArgs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from metrobench.errors import UsageError

OURS = {
    "model": "--model names the profile, --weights hf:ID the checkpoint",
    "host": "metrobench serve has --host",
    "port": "metrobench serve has --port",
    "seed": "--seed",
}
"""Arguments that this command sets itself, and how to say it instead."""


def parse_vllm(words: Sequence[str]) -> dict[str, Any]:
    """Arguments by name from `--max-num-batched-tokens 4096 --enforce-eager --no-async-scheduling`.

    Values are JSON where they can be read as such, else text; a name with dots sets a part of a table.
    Raises UsageError.
    """
    found: dict[str, Any] = {}
    waiting = ""
    for word in words:
        if word.startswith("--") and word != "--":
            if waiting:
                _put(found, waiting, None)
            waiting, equals, value = word[2:].partition("=")
            if equals:
                _put(found, waiting, value)
                waiting = ""
        elif waiting:
            _put(found, waiting, word)
            waiting = ""
        else:
            raise UsageError(
                f"unexpected argument {word!r}",
                "vLLM's own are written after --, as in: -- --max-num-batched-tokens 4096",
            )
    if waiting:
        _put(found, waiting, None)
    return found


def _put(found: dict[str, Any], name: str, value: str | None) -> None:
    """Set one argument; without a value it is switched on, or off where it begins with `no-`."""
    name = name.replace("-", "_")
    if value is None and name.startswith("no_"):
        name, read = name.removeprefix("no_"), False
    else:
        read = True if value is None else _read(value)
    first, *rest = name.split(".")
    if not all(part.isidentifier() for part in (first, *rest)):
        raise UsageError(f"{name!r} is not the name of a vLLM argument")
    if first in OURS:
        raise UsageError(f"--{first} cannot be given to vLLM here", OURS[first])
    table = found
    for part in (first, *rest)[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UsageError(f"vLLM argument {name!r} is given twice, as a value and as a table")
    table[(first, *rest)[-1]] = read


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
