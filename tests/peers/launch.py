"""Start other people's servers and wait until they answer, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("METROBENCH_PEERS", HERE.parents[1] / ".peers"))
START = 240.0
"""Seconds for a server to come up on a busy machine."""
END = 20.0
"""Seconds in which a server must have ended after it was asked to."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def running(commands: Iterable[list[str]], log: Path, **environment: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The commands at work, their words in `log`; ended afterwards, politely first."""
    env = dict(os.environ, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1") | environment
    with log.open("wb") as out, contextlib.ExitStack() as stack:
        processes = []
        for command in commands:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=env)
            stack.callback(end, process)
            processes.append(process)
        yield processes


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a server and what it started."""
    process.terminate()
    try:
        process.wait(END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_up(port: int, path: str, status: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when a server answers a page with a status. A server that ends before it fails the test, in its words."""
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1.0) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            found = error.code
        except OSError:
            time.sleep(0.2)
            continue
        assert found == status
        return
    pytest.fail(f"no server on port {port}: {log.read_text(errors='replace')[-2000:]}")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    asked = [sys.executable, "-m", "metrobench", *words, "--json"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=500)


def metrobench(*words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and record of a command against an endpoint."""
    done = run(*words)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def skip_if_busy(record: dict[str, Any]) -> None:
    """What a client that had no time for its own schedule measured proves nothing."""
    assert record["status"] == "complete"
    if all(probe["outcome"] == "void" for probe in record["probes"]):
        pytest.skip(f"this machine is too busy: {record['probes'][0]['reasons'][0]}")
