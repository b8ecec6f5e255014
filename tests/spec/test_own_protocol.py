"""Protocols of other packages: the one in the docs measures a server, and what is none is said to be none."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.server import ServerConnection, serve

from metrobench.endpoints.registry import GROUP, fit
from metrobench.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "own-protocol.md"
RATE, UNIT = 16_000, 1.0


def install(folder: Path, code: str, point: str) -> None:
    """A package with one module and one entry point, as pip leaves it."""
    (folder / "parrot.py").write_text(code)
    info = folder / "parrot-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{point}\n")


def blocks(language: str) -> list[str]:
    """Code of the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def parrot(socket: ServerConnection) -> None:
    """A server of the page's protocol."""
    socket.send(json.dumps({"ready": True}))
    heard = frame = 0
    for message in socket:
        heard += len(base64.b64decode(json.loads(message)["pcm"])) // 2
        while heard >= (frame + 1) * UNIT * RATE:
            socket.send(json.dumps({"heard": frame, "text": "polly wants it"}))
            frame += 1


@contextmanager
def serving() -> Iterator[str]:
    """Its address."""
    with serve(parrot, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.realtime
def test_the_protocol_of_the_page_measures_a_server(tmp_path: Path) -> None:
    (code,), (toml,) = blocks("python"), blocks("toml")
    install(tmp_path, code, toml.splitlines()[1].replace('"', ""))
    words = ["--protocol", "parrot", "--model", "minicpm-o", "--out", str(tmp_path / "out"), "--json"]
    with serving() as url:
        done = subprocess.run(
            [sys.executable, "-m", "metrobench", "check", "--endpoint", url, *words],
            env=dict(os.environ, PYTHONPATH=f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"),
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    misses = json.loads(done.stdout)["probes"][0]["verdict"]["misses"]
    assert misses["met"] + misses["late"] == 5
    assert misses["early"] == 0


def test_the_page_keeps_its_promise_of_about_forty_lines() -> None:
    (code,) = blocks("python")
    assert len(code.splitlines()) <= 45


@pytest.mark.parametrize(
    ("code", "point", "words"),
    [
        ("raise RuntimeError('no')", "odd-one = parrot:Parrot", "cannot be loaded: RuntimeError: no"),
        ("Parrot = 3", "odd-one = parrot:Parrot", "is no class on"),
        ("", "odd-one = parrot:Parrot", "cannot be loaded: AttributeError"),
    ],
)
def test_what_is_no_protocol_is_said_to_be_none(
    code: str, point: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, code, point)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "parrot", raising=False)
    with pytest.raises(UsageError, match="odd-one") as raised:
        fit("odd-one", UNIT, RATE)
    assert words in raised.value.message
    with pytest.raises(UsageError) as raised:
        fit("odd-two", UNIT, RATE)
    assert "odd-one" in raised.value.hint
