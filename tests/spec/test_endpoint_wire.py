"""Commands against scripted peers: which protocol it is, and that secrets stay where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metrobench.endpoints.base import Access
from metrobench.errors import UnreachableError, UsageError
from metrobench.load.detect import detect
from tests.cli.command import metrobench
from tests.servers.binary import SESSIONS, BinaryServer, binary_script
from tests.servers.http_peer import HttpServer, http_script
from tests.servers.json_peers import MODEL, PEERS, JsonServer, json_script
from tests.servers.truth import Script, TruthServer

pytestmark = pytest.mark.realtime

SECRET, OTHER_SECRET = "s3cr3t-t0ken", "an0ther-s3cret"
TOLD = {
    "vllm-realtime": "vllm-realtime",
    "sglang-omni": "sglang-omni",
    "openai": "openai",
    "openai-beta": "openai-beta",
}


@pytest.mark.parametrize("name", ["vllm-realtime", "sglang-omni", "openai", "openai-beta", "openai-translation"])
def test_a_peer_tells_its_protocol_by_its_greeting(name: str) -> None:
    with JsonServer(json_script(name)) as server:
        found = detect(server.url, Access())
    assert (found.protocol, found.why) == (name, "by its greeting")


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_binary_peers_tell_theirs_as_well(name: str) -> None:
    with BinaryServer(binary_script(name)) as server:
        assert detect(server.url, Access()).protocol == name


def test_the_embedded_dialect_is_known() -> None:
    with TruthServer(Script()) as server:
        assert detect(server.url, Access()).protocol == "realtime"


def test_a_peer_that_waits_for_the_client_is_not_guessed() -> None:
    with JsonServer(json_script("vllm-omni")) as server, pytest.raises(UsageError, match="says nothing") as raised:
        detect(server.url, Access())
    assert "--protocol" in raised.value.hint


def test_no_server_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="connection refused"):
        detect("ws://127.0.0.1:9/v1/realtime", Access())


def test_no_page_shows_a_secret_even_if_the_server_repeats_it(tmp_path: Path) -> None:
    with JsonServer(json_script("openai", refuse=[0])) as server:
        done = metrobench(
            *("check", "--endpoint", server.url, "--protocol", "openai", "--out", "out", "--model", "smoke"),
            *("--token-env", "THE_TOKEN", "--header", f"X-Extra: {OTHER_SECRET}"),
            cwd=tmp_path,
            env={"THE_TOKEN": SECRET},
        )
    assert done.code == 4
    assert "too many sessions for Bearer ***" in done.err
    texts = [done.out, done.err]
    texts += [path.read_bytes().decode("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert len(texts) > 4
    for text in texts:
        assert SECRET not in text and OTHER_SECRET not in text


@pytest.mark.parametrize(
    ("name", "model", "answers"),
    [
        ("vllm-realtime", "voxtral-realtime", "of 25 frames of 80 ms"),
        ("sglang-omni", "smoke", "of 5 frames of 500 ms"),
        ("vllm-omni", "smoke", "of 5 frames of 500 ms"),
        ("openai-translation", "smoke", "of 10 frames of 200 ms"),
        ("minicpm-o", "minicpm-o", "of 5 frames of 1 s"),
        ("minicpm-o-demo", "minicpm-o", "of 5 frames of 1 s"),
    ],
)
def test_check_answers_and_says_what_it_counts(tmp_path: Path, name: str, model: str, answers: str) -> None:
    own = name in ("vllm-realtime", "openai-translation")
    unit, first = (PEERS[name].unit, PEERS[name].first_ready) if own else (0.5, 0.5)
    if name.startswith("minicpm-o"):
        unit = first = 1.0
    with JsonServer(json_script(name, unit=unit, first_ready=first)) as server:
        done = metrobench(
            *("check", "--endpoint", server.url, "--protocol", name, "--served-model", MODEL, "--model", model),
            *("--out", "out"),
            cwd=tmp_path,
        )
    assert done.code == 0, done
    assert answers in done.out
    (record,) = tmp_path.glob("out/*/run.json")
    assert json.loads(record.read_text())["setting"]["frame_class"] == PEERS[name].frame_class


def test_check_finds_sessions_over_http_and_counts_their_frames(tmp_path: Path) -> None:
    with HttpServer(http_script()) as server:
        done = metrobench(
            *("check", "--endpoint", server.url, "--protocol", "auto", "--model", "interaction-200ms", "--out", "out"),
            cwd=tmp_path,
        )
    assert done.code == 0, done
    assert "of 10 frames of 200 ms" in done.out
