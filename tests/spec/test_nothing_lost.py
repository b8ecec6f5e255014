"""Nothing measured is ever lost: interrupts, dead processes and full disks leave a complete, readable record."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from metrobench.errors import UsageError
from metrobench.load.spool import read_facts as read_spool
from metrobench.records import Record, read_facts, read_record
from tests.servers.truth import Script, TruthServer

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

FOUND = ((0, "failed"), (3, "void"))
"""Exit code and outcome of a run that found a death; void where other programs kept the machine busy beside it."""
STREAMED = 4.0
"""Seconds of streaming after which something happens to a command."""
PATIENCE = 120.0
"""Seconds to wait for something that must happen."""


class Command:
    """A `metrobench` in the background, writing to `out`."""

    def __init__(self, out: Path, *arguments: str) -> None:
        self.out = out
        command = [sys.executable, "-m", "metrobench", *arguments, "--model", "smoke", "--out", str(out)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait_streaming(self, run: str = "**") -> None:
        """Until audio has been streamed for a few seconds, in the run of that folder."""
        wait_for(lambda: self._streamed(run) > STREAMED or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()

    def _streamed(self, run: str) -> float:
        """Seconds of the run that goes on now."""
        for spool in self.out.glob(f"{run}/spool"):
            with contextlib.suppress(UsageError, ValueError, IndexError):
                return read_spool(spool).t_stop
        return 0.0

    def _engine(self) -> psutil.Process | None:
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if "EngineCore" in child.name() or "EngineCore" in " ".join(child.cmdline()):
                    return child
            except psutil.NoSuchProcess:
                continue
        return None

    def engine(self) -> psutil.Process:
        found = self._engine()
        assert found is not None
        return found

    def finish(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert "Traceback" not in out + err
        return self.process.returncode, out, err

    def record(self) -> Record:
        return read_record(next(self.out.glob("2*")))

    def folder(self) -> Path:
        return next(self.out.glob("2*"))


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.1)


def leftovers(folder: str) -> list[int]:
    """Processes that were started with their temporary files under `folder`."""
    found = []
    for process in psutil.process_iter(["pid"]):
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("TMPDIR", "").startswith(folder):
                found.append(process.pid)
    return found


@contextlib.contextmanager
def leaving_nothing() -> Iterator[None]:
    """No process and no temporary file of the commands in it outlives them."""
    with tempfile.TemporaryDirectory(prefix="lost-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as here:
        here.setenv("TMPDIR", folder)
        yield
        wait_for(lambda: not leftovers(folder))
        assert not list(Path(folder).iterdir())


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    with leaving_nothing():
        yield


@pytest.fixture(params=["endpoint", pytest.param("worker", marks=pytest.mark.thorough)])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """Options that name the server: a scripted one, which loads no vLLM, or none for a worker of the command's own."""
    if request.param == "worker":
        yield ()
        return
    with TruthServer(Script(unit=0.5, first_ready=0.5)) as scripted:
        yield ("--endpoint", scripted.url)


@dataclass(frozen=True)
class Struck:
    """A search whose engine was killed in its first run, and which was interrupted in its second."""

    command: Command
    code: int
    out: str
    err: str
    expected: int


@pytest.fixture(
    scope="module",
    params=[(signal.SIGTERM, 143), pytest.param((signal.SIGINT, 130), marks=pytest.mark.thorough)],
    ids=["SIGTERM", "SIGINT"],
)
def struck(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Struck:
    """One command for both: it loads vLLM once."""
    signum, expected = request.param
    with leaving_nothing():
        command = Command(tmp_path_factory.mktemp("struck"), "capacity", "--guess", "8", "--max-sessions", "16")
        command.wait_streaming()
        command.engine().send_signal(signal.SIGKILL)
        command.wait_streaming("2*/probes/02-*")
        command.process.send_signal(signum)
        code, out, err = command.finish()
    return Struck(command, code, out, err, expected)


def test_an_interrupted_search_keeps_what_it_measured(struck: Struck) -> None:
    assert struck.code == struck.expected
    record, folder = struck.command.record(), struck.command.folder()
    assert record.status == "interrupted"
    assert record.probes[-1].outcome == "interrupted"
    for probe in record.probes:
        assert len(read_facts(folder / probe.folder).frames) > 0
    assert (folder / "index.html").is_file()


def test_an_engine_killed_in_mid_run_is_a_finding_after_which_the_search_goes_on(struck: Struck) -> None:
    first, second = struck.command.record().probes
    assert first.outcome in ("failed", "void")  # void where other programs kept the machine busy beside it
    assert first.verdict["collapse"]["kind"] == "engine-death"
    assert first.verdict["misses"]["dead"] > 0
    assert "engine-death" in struck.err or first.outcome == "void"
    assert second.verdict["collapse"]["kind"] == "none"


def test_an_interrupt_while_vllm_loads_ends_at_once(tmp_path: Path) -> None:
    command = Command(tmp_path, "capacity")
    wait_for(lambda: list(tmp_path.glob("*/run.json")))
    command.process.send_signal(signal.SIGTERM)
    assert command.finish()[0] == 143
    record = command.record()
    assert (record.status, record.probes) == ("interrupted", [])
    assert not list(tmp_path.glob("*/.reserve"))


@pytest.mark.thorough
def test_an_engine_killed_in_a_single_run_is_a_finding(tmp_path: Path) -> None:
    command = Command(tmp_path, "run", "--sessions", "4", "--duration", "15s")
    command.wait_streaming()
    command.engine().send_signal(signal.SIGKILL)
    code, out, _ = command.finish()
    record = command.record()
    assert record.status == "complete"
    probe = record.probes[0]
    assert (code, probe.outcome) in FOUND
    assert probe.verdict["collapse"]["kind"] == "engine-death"
    assert probe.verdict["misses"]["dead"] > 0
    assert "engine-death" in out or probe.outcome == "void"


@pytest.mark.thorough
def test_a_worker_killed_in_mid_run_is_a_finding(tmp_path: Path) -> None:
    command = Command(tmp_path, "run", "--sessions", "4", "--duration", "15s")
    command.wait_streaming()
    front = command.engine().parent()
    assert front is not None
    front.send_signal(signal.SIGKILL)
    code, _, _ = command.finish()
    probe = command.record().probes[0]
    assert (code, probe.outcome) in FOUND
    assert probe.verdict["misses"]["died"] == 4


def test_a_load_process_killed_in_mid_run_keeps_its_facts(tmp_path: Path, server: tuple[str, ...]) -> None:
    command = Command(tmp_path, "run", "--sessions", "4", "--duration", "60s", *server)
    command.wait_streaming()
    drivers = [
        child
        for child in psutil.Process(command.process.pid).children(recursive=True)
        if "metrobench.load.driver" in child.cmdline()
    ]
    drivers[0].send_signal(signal.SIGKILL)
    code, out, _ = command.finish()
    assert code == 3
    record = command.record()
    assert len(read_facts(command.folder()).frames) > 0
    assert record.probes[0].outcome == "void"
    assert "signal 9" in out


def test_a_killed_command_line_leaves_no_process(tmp_path: Path) -> None:
    command = Command(tmp_path, "run", "--sessions", "4", "--duration", "60s")
    command.wait_streaming()
    command.process.kill()
    command.process.communicate(timeout=PATIENCE)
    assert command.record().status == "running"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a disk of a given size; needs root."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.skip(f"no disk of a given size can be made here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=False)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a small disk needs root")
def test_a_disk_too_small_shows_before_the_run(tmp_path: Path, small_disk: Callable[[str], Path]) -> None:
    command = Command(small_disk("1m"), "run", "--sessions", "4", "--duration", "15s")
    code, _, err = command.finish()
    assert code == 2
    assert "space" in err or "write" in err


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a small disk needs root")
def test_a_disk_that_fills_in_mid_run_loses_nothing(
    tmp_path: Path, small_disk: Callable[[str], Path], server: tuple[str, ...]
) -> None:
    disk = small_disk("40m")
    command = Command(disk, "run", "--sessions", "4", "--duration", "15s", *server)
    command.wait_streaming()
    with (disk / "filler").open("wb") as filler, pytest.raises(OSError):
        while True:
            filler.write(b"\0" * 65536)
            filler.flush()
    code, _, _ = command.finish()
    assert code in (0, 2, 3)
    record = command.record()
    assert record.status in ("complete", "failed")
    assert record.probes[0].verdict["misses"]["due"] > 0
    folder = command.folder()
    assert (folder / "frames.parquet").is_file() or (folder / "spool").is_dir()
