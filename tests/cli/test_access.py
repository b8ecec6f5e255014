"""Secrets come from the environment, a file or an option, and show nowhere."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from metrobench.cli.access import parse_header, read_access, without_secrets
from metrobench.endpoints.base import Access
from metrobench.errors import UsageError

SECRET = "s3cr3t-t0ken"


def access(**given: Any) -> Access:
    nothing: dict[str, Any] = dict.fromkeys(("token_env", "token_file", "served_model", "session", "ca_file"))
    return read_access(**({"headers": (), "insecure": False} | nothing | given))


def test_a_token_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_TOKEN", f" {SECRET}\n")
    assert access(token_env="THE_TOKEN").token == SECRET


def test_a_token_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(SECRET + "\n")
    assert access(token_file=str(tmp_path / "t")).token == SECRET


def test_headers_are_names_and_values() -> None:
    assert access(headers=("X-A: b: c", "x-b:d")).headers == {"X-A": "b: c", "x-b": "d"}


@pytest.mark.parametrize(
    "text", ["", "x", ":v", f"bad name: {SECRET}", f"Host: {SECRET}", f"X: {SECRET}\r\nY: z", "X:"]
)
def test_a_bad_header_is_wrong_usage_and_does_not_show(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_header(text)
    assert SECRET not in raised.value.message + raised.value.hint


@pytest.mark.parametrize(
    "given",
    [
        {"token_env": "NO_SUCH_VARIABLE"},
        {"token_file": "/no/such/file"},
        {"token_env": "A", "token_file": "b"},
        {"session": "/no/such/file"},
        {"ca_file": "/no/such/file"},
    ],
)
def test_what_is_missing_is_wrong_usage(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    with pytest.raises(UsageError):
        access(**given)


@pytest.mark.parametrize("text", ["", "[]", "{", "3", '{"a": ' * 100_000])
def test_a_session_file_is_a_json_object(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(UsageError, match="not a JSON object"):
        access(session=str(tmp_path / "s.json"))


def test_the_reference_audio_of_a_session_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(b"RIFF")
    (tmp_path / "s.json").write_text('{"ref_audio": "voice.wav", "voice": "x"}')
    found = access(session=str(tmp_path / "s.json")).session
    assert found == {"ref_audio": f"data:audio/wav;base64,{base64.b64encode(b'RIFF').decode()}", "voice": "x"}


def test_a_command_line_is_recorded_without_its_headers() -> None:
    shown = without_secrets(["run", "--header", f"Authorization: Bearer {SECRET}", f"--header=X-Key: {SECRET}", "-q"])
    assert shown == ["run", "--header", "Authorization: ***", "--header=X-Key: ***", "-q"]


def test_a_secret_that_a_server_repeats_is_taken_out() -> None:
    seen = Access(token=SECRET, headers={"X": f"Basic {SECRET}2"})
    assert SECRET not in seen.clean(f"no account for {SECRET} or {SECRET}2")
    assert SECRET not in repr(seen)
