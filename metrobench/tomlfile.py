"""TOML files into structs; a wrong file names each of its wrong fields, one line each."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from metrobench.errors import UsageError

MOST_NAMED = 12
"""Wrong fields named at once."""

Kind = TypeVar("Kind", bound=msgspec.Struct)


def read_struct(path: Path, kind: type[Kind], what: str) -> Kind:
    """The file as a `kind`; `what` it is called in errors. Raises UsageError."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{what} {path.name} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{what} {path.name} is not TOML: {error}") from error
    refuse(path, what, list(misfits(data, kind)))
    return msgspec.convert(data, kind)


def shipped_or_own(name_or_path: str, folder: Path, names: Sequence[str], *, what: str, called: str, hint: str) -> Path:
    """The shipped file of one of `names` in `folder`, or one's own by path; `what` such a file is and `called` what is
    named by it in errors. `hint`: where no name is close. Raises UsageError."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or "/" in name_or_path:
        if not path.is_file():
            raise UsageError(f"no {what} file at {name_or_path}")
        return path
    if name_or_path not in names:
        close = difflib.get_close_matches(name_or_path, names, n=1)
        meant = f"did you mean {close[0]}?" if close else hint
        raise UsageError(f"unknown {called} {name_or_path!r}", f"{meant} A path to a .toml file works too.")
    return folder / f"{name_or_path}.toml"


def refuse(path: Path, what: str, problems: list[str]) -> None:
    """Raise UsageError if there are problems; each is named on a line of its own."""
    if not problems:
        return
    shown = problems[:MOST_NAMED]
    if len(problems) > len(shown):
        shown.append(f"and {len(problems) - len(shown)} more")
    raise UsageError(f"{what} {path.name}: {shown[0]}", "\n  ".join(shown[1:]))


def misfits(data: Mapping[str, Any], kind: type[msgspec.Struct], where: str = "") -> Iterator[str]:
    """What keeps `data` from being a `kind`: fields that are unknown, missing or of a wrong type, by dotted name."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    meant = set()
    for name in data:
        if name not in fields:
            close = difflib.get_close_matches(name, fields.keys() - data.keys(), n=1)
            meant.update(close)
            yield f"{where}{name} is unknown" + (f", did you mean {where}{close[0]}?" if close else "")
    for name, field in fields.items():
        if name in data:
            yield from _misfit(data[name], field.type, where + name)
        elif field.required and name not in meant:
            yield f"{where}{name} is missing"


def _misfit(value: Any, kind: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from misfits(value, kind, f"{path}.")
    elif isinstance(value, dict) and get_origin(kind) is dict:
        for name, part in value.items():
            yield from _misfit(part, get_args(kind)[1], f"{path}.{name}")
    else:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            message = str(error).replace("`", "")
            yield f"{path}: {message[:1].lower()}{message[1:]}"
