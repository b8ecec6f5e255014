"""What the options say about an endpoint beside its address. Values of headers and tokens show in no message."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from metrobench.endpoints.base import UNREADABLE, Access
from metrobench.errors import UsageError

HIDDEN = "***"
REFERENCE = "ref_audio"
"""Key of a session file whose value may be the path of a WAV file."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset({"host", "upgrade", "connection", "sec-websocket-key", "sec-websocket-version"})


def read_access(
    headers: Iterable[str],
    token_env: str | None,
    token_file: str | None,
    served_model: str | None,
    session: str | None,
    ca_file: str | None,
    insecure: bool,
) -> Access:
    """The access that the options describe. Raises UsageError."""
    if token_env is not None and token_file is not None:
        raise UsageError("--token-env and --token-file are two tokens", "give one of them")
    if ca_file is not None and not Path(ca_file).is_file():
        raise UsageError(f"--ca-file {ca_file}: there is no such file")
    return Access(
        headers=dict(parse_header(text) for text in headers),
        token=_token(token_env, token_file),
        model=served_model or "",
        session=_session(Path(session)) if session is not None else {},
        ca_file=ca_file or "",
        insecure=insecure,
    )


def parse_header(text: str) -> tuple[str, str]:
    """Name and value of `Name: value`. Raises UsageError, which never shows the value."""
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not _NAME.fullmatch(name) or not value:
        raise UsageError("--header is not a header", "write --header 'Name: value'")
    if name.lower() in _OURS:
        raise UsageError(f"--header {name} belongs to the WebSocket handshake")
    return name, _one_line(value, f"--header {name}")


def without_secrets(arguments: Iterable[str]) -> list[str]:
    """A command line whose `--header` values are hidden."""
    shown: list[str] = []
    value = False
    for word in arguments:
        if value:
            word = _hidden(word)
        elif word.startswith("--header="):
            word = "--header=" + _hidden(word.removeprefix("--header="))
        value = word == "--header"
        shown.append(word)
    return shown


def _hidden(header: str) -> str:
    name, colon, _ = header.partition(":")
    return f"{name}: {HIDDEN}" if colon else HIDDEN


def _token(variable: str | None, file: str | None) -> str:
    if variable is not None:
        token = os.environ.get(variable, "").strip()
        if not token:
            raise UsageError(f"--token-env {variable}: no such variable is set", f"export {variable}=... first")
        return _one_line(token, f"--token-env {variable}")
    if file is None:
        return ""
    try:
        token = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {file} cannot be read: {getattr(error, 'strerror', error)}") from error
    if not token:
        raise UsageError(f"--token-file {file} is empty")
    return _one_line(token, f"--token-file {file}")


def _one_line(value: str, where: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"{where} holds characters that no header may have")
    return value


def _session(path: Path) -> dict[str, Any]:
    """A JSON object; the WAV file that its reference audio names stands in it."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"--session {path} cannot be read: {error.strerror}") from error
    except UNREADABLE as error:
        raise UsageError(f"--session {path} is not a JSON object: {error}") from error
    named = found.get(REFERENCE)
    if isinstance(named, str) and named.endswith(".wav"):
        try:
            sound = base64.b64encode((path.parent / named).read_bytes()).decode()
        except OSError as error:
            raise UsageError(f"--session {path}: {named} cannot be read: {error.strerror}") from error
        found[REFERENCE] = f"data:audio/wav;base64,{sound}"
    return found
