"""A foreign server made fresh: the command runs, its health is waited for, what goes wrong is said."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from metrobench.errors import UnreachableError, UsageError
from metrobench.restart import Restart, round_trip


def never() -> bool:
    return False


@pytest.fixture
def health() -> Iterator[tuple[str, list[int]]]:
    """A health address that answers with the codes of the list, the last one for ever."""
    codes = [503, 200]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(codes[0] if len(codes) == 1 else codes.pop(0))
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/health", codes
    server.shutdown()
    server.server_close()


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"ws://127.0.0.1:{server.getsockname()[1]}/"


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"ws://127.0.0.1:{server.getsockname()[1]}/"


def test_the_command_runs_and_health_is_waited_for(tmp_path: Path, health: tuple[str, list[int]]) -> None:
    address, codes = health
    mark = tmp_path / "restarted"
    Restart(f"echo hello; touch {mark}", address, "ws://127.0.0.1:1/").run(tmp_path / "log", never)
    assert mark.exists()
    assert codes == [200]
    assert (tmp_path / "log").read_text() == "hello\n"


def test_without_a_health_address_the_port_is_waited_for(tmp_path: Path, listening: str) -> None:
    Restart("true", "", listening).run(tmp_path / "log", never)


def test_a_command_that_fails_is_named_with_its_last_words(tmp_path: Path, listening: str) -> None:
    with pytest.raises(UnreachableError, match="exit code 3: no such unit"):
        Restart("echo one; echo no such unit >&2; exit 3", "", listening).run(tmp_path / "log", never)


def test_a_command_that_stays_is_killed_with_its_children(tmp_path: Path, listening: str) -> None:
    with pytest.raises(UnreachableError, match="did not return"):
        Restart("sleep 987 & wait", "", listening, timeout=0.3).run(tmp_path / "log", never)
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x00987" in _read(path)]
    assert left == []


def test_a_server_that_does_not_come_up_is_named(tmp_path: Path, closed_port: str) -> None:
    with pytest.raises(UnreachableError, match="did not come up"):
        Restart("true", "", closed_port, timeout=0.3).run(tmp_path / "log", never)


def test_an_interrupt_ends_the_wait(tmp_path: Path, closed_port: str) -> None:
    Restart("sleep 987", "", closed_port).run(tmp_path / "log", lambda: True)


@pytest.mark.parametrize(("command", "health"), [(" ", ""), ("true", "ftp://x/"), ("true", "localhost:80")])
def test_what_cannot_work_is_refused(command: str, health: str) -> None:
    with pytest.raises(UsageError):
        Restart(command, health, "ws://127.0.0.1:1/")


def test_the_round_trip_is_that_of_a_connect(listening: str, closed_port: str) -> None:
    found = round_trip(listening)
    assert found is not None
    assert 0.0 < found < 5.0
    assert round_trip(closed_port) is None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
