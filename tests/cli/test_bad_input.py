"""Bad input: a sentence that names the cause, the right exit code, never a traceback and never a hang."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from metrobench.cli.main import COMMANDS
from tests.cli.command import assert_plain_error, in_process, metrobench


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["capacity", "--model", "minicpmo"], ["minicpmo", "minicpm-o"]),
        (["capacity", "--model", "nothing/here.toml"], ["nothing/here.toml"]),
        (["capacity", "--budget", "0"], ["budget"]),
        (["capacity", "--budget", "1parsec"], ["parsec", "units"]),
        (["capacity", "--budget", "-1s"], ["budget"]),
        (["capacity", "--budget", "nan"], ["budget"]),
        (["quality", "--temperature", "nan"], ["nan", "0.0<=x<=2.0"]),
        (["capacity", "--miss-rate", "101%"], ["miss-rate"]),
        (["capacity", "--slo", "p99"], ["--slo"]),
        (["capacity", "--kv", "window:0"], ["--kv"]),
        (["capacity", "--kv", "everything"], ["--kv"]),
        (["capacity", "--duration", "soon"], ["duration"]),
        (["capacity", "--effort", "heroic"], ["effort"]),
        (["capacity", "--max-sessions", "0"], ["max-sessions"]),
        (["capacity", "--pool-tokens", "-5"], ["pool-tokens"]),
        (["capacity", "--weights", "gold"], ["gold"]),
        (["capacity", "--no-such-flag"], ["no-such-flag"]),
        (["run", "--sessions", "0"], ["sessions"]),
        (["run", "--sessions", "many"], ["sessions"]),
        (["run"], ["--sessions"]),
        (["run", "--sessions", "1", "--endpoint", "ftp://127.0.0.1"], ["ws://"]),
        (["run", "--sessions", "1", "--endpoint", "ws://127.0.0.1:1", "--protocol", "telepathy"], ["telepathy"]),
        (["run", "--sessions", "1", "--endpoint", "http://127.0.0.1:1"], ["ws://"]),
        (["check", "--endpoint", "ws://127.0.0.1:1", "--protocol", "sglang-sessions"], ["http://"]),
        (
            ["check", "--endpoint", "http://127.0.0.1:1", "--protocol", "sglang-sessions", "--record-wire", "tape"],
            ["--record-wire", "sglang-sessions"],
        ),
        (["no-such-command"], ["no-such-command"]),
    ],
)
def test_wrong_usage_exits_2(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    assert_plain_error(in_process(*arguments, cwd=tmp_path), 2, *words)


def test_a_folder_that_cannot_be_written_exits_2(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    done = in_process("run", "--sessions", "1", "--endpoint", "ws://127.0.0.1:1", "--out", "taken", cwd=tmp_path)
    assert_plain_error(done, 2, "taken")


def test_nobody_listening_exits_4(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"ws://127.0.0.1:{free.getsockname()[1]}/v1/realtime"
    for command in (["check"], ["run", "--sessions", "2"], ["capacity"]):
        assert_plain_error(in_process(*command, "--quiet", "--endpoint", url, cwd=tmp_path), 4, "127.0.0.1")


class _WebPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web_page() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _WebPage)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"ws://127.0.0.1:{server.server_port}/v1/realtime"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_web_page_is_no_websocket_and_exits_4(tmp_path: Path, web_page: str) -> None:
    assert_plain_error(in_process("check", "--quiet", "--endpoint", web_page, cwd=tmp_path), 4, "WebSocket")


def test_a_host_that_does_not_exist_exits_4(tmp_path: Path) -> None:
    done = in_process("check", "--quiet", "--endpoint", "ws://no-such-host.invalid/v1/realtime", cwd=tmp_path)
    assert_plain_error(done, 4, "no-such-host.invalid")


def test_no_vllm_installed_exits_4_and_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'vllm'\", name='vllm')")
    done = metrobench("check", "--model", "smoke", "--quiet", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert_plain_error(done, 4, "vLLM", "metrobench[cpu]")


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = metrobench("capacity", "--model", "nope", "--debug", cwd=tmp_path)
    assert "Traceback" in done.err


def test_help_needs_no_heavy_import(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from metrobench.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'pyarrow', 'torch', 'vllm', 'picows', 'soundfile', 'msgspec'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, capture_output=True, timeout=60)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_in_80_columns(tmp_path: Path, command: str) -> None:
    done = in_process(command, "--help", cwd=tmp_path)
    assert done.code == 0
    assert all(len(line) <= 80 for line in done.out.splitlines())
