"""Fresh workers, one per run, forked from a server that has loaded vLLM once."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from metrobench.errors import UnreachableError, UsageError
from metrobench.profiles import StandIn
from metrobench.worker import channel, preload
from metrobench.worker.spec import WorkerInfo, WorkerSpec, encode_spec
from metrobench.worker.warmup import matrices

PRELOAD_TIMEOUT = 300.0
ANSWER_TIMEOUT = 30.0
START_TIMEOUT = 120.0
"""Of a stand-in."""
LOADING_TIMEOUT = 1200.0
"""Of a real shape: weights are read, kernels compiled, graphs captured."""
_TUNABLES = ("hugetlb=1", "mmap_max=0", "trim_threshold=4294967296")
MALLOC = {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{tunable}" for tunable in _TUNABLES)}
"""Memory that was used once stays with the process, in 2 MB pages where they are large: an engine step and an FFT would
otherwise return their scratch memory to the kernel and fault it in again every time. A threshold for mmap is no way to
say so: it ends at 32 MB, and logits of 54 sessions that decode at once are more. Read at exec only."""


class Worker:
    """A running worker. Made by `ForkServer.launch`; `kill` ends it and leaves nothing behind."""

    def __init__(self, server: ForkServer, spec: WorkerSpec, pid: int, end: socket.socket, telemetry: int) -> None:
        self.spec = spec
        self._server = server
        self._pid = pid
        self._end = end
        self._telemetry = telemetry
        self._offset = 0
        self._rest = b""
        self._samples: list[dict[str, float | None]] = []
        self._death: str | None = None
        self._killed = False
        self._pidfd = -1
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(pid)
        self.url = ""
        self.info: WorkerInfo

    def telemetry(self) -> list[dict[str, float | None]]:
        """Samples since the last call, oldest first. Keys of measure.facts.TELEMETRY_FIELDS; `t` is CLOCK_MONOTONIC."""
        if not self._killed:
            self._read_samples()
        samples, self._samples = self._samples, []
        return samples

    def _read_samples(self) -> None:
        while data := os.pread(self._telemetry, 1 << 20, self._offset):
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._samples += [msgspec.json.decode(line, type=dict[str, float | None]) for line in lines]

    def alive(self) -> bool:
        """True while gateway and engine both live."""
        return not self._killed and self.death() is None

    def death(self) -> str | None:
        """Why the worker died by itself, in one sentence; None while it lives, or when `kill` ended it."""
        while self._death is None and not self._killed:
            try:
                got = channel.receive(self._end, channel.FromWorker, 0)
            except TimeoutError:
                break
            self._death = self._how_it_ended() if got is None else _reason(got[0])
        return self._death

    def _how_it_ended(self) -> str:
        try:
            ended = self._server.kill(self._pid)
        except UnreachableError as error:
            return f"the gateway process is gone ({error})"
        return f"the gateway process {ended or 'is gone'}"

    def _wait_ready(self, timeout: float) -> None:
        try:
            got = channel.receive(self._end, channel.FromWorker, timeout)
        except TimeoutError:
            raise UnreachableError(f"the worker was not ready after {timeout:g} s", self._server.see_log) from None
        message = None if got is None else got[0]
        if isinstance(message, channel.Ready):
            self.info = msgspec.json.decode(message.info, type=WorkerInfo)
            return
        if isinstance(message, channel.Failed):
            raise (UsageError if message.usage else UnreachableError)(
                message.message, message.hint or self._server.see_log
            )
        raise UnreachableError(f"the worker did not start: {self._how_it_ended()}", self._server.see_log)

    def kill(self) -> None:
        """SIGKILL the whole process group, reap it, remove its files. Does nothing the second time."""
        if self._killed:
            return
        self.death()
        self._killed = True
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._read_samples()
        try:
            self._server.kill(self._pid)
        except UnreachableError:
            self._kill_alone()
        finally:
            self._end.close()
            os.close(self._telemetry)
            if self._pidfd >= 0:
                os.close(self._pidfd)
            self._server.forget(self)

    def _kill_alone(self) -> None:
        """The fork server is gone; the kernel has signalled the worker already. Make sure, by a handle that cannot
        hit another process."""
        if self._pidfd >= 0 and not _ended(self._pidfd, 0):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            _ended(self._pidfd, ANSWER_TIMEOUT)


def _ended(pidfd: int, timeout: float) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(timeout * 1000))


def _reason(message: Any) -> str | None:
    return message.reason if isinstance(message, channel.Dead) else None


def need_vllm() -> None:
    """Raises UnreachableError where there is no vLLM to load."""
    if (absent := preload.missing()) is not None:
        raise UnreachableError(absent.message, absent.hint)


class ForkServer:
    """Context manager around the process that has vLLM loaded. Calls may come from any thread, one at a time.

    Start it from a thread that outlives it: the kernel watches the thread, not the process, when it tells the server
    that its parent is gone.
    """

    def __init__(self, log: Path, shape: StandIn | None = None) -> None:
        """`shape`: the stand-in that will run, so that its kernels are compiled before the first worker."""
        self.preload_seconds = 0.0
        self._matrices = [] if shape is None else matrices(shape)
        self.vllm_version = ""
        self.see_log = f"see {log}"
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket | None = None
        self._root: Path | None = None
        self._workers: list[Worker] = []
        self._asked = 0

    def start(self) -> None:
        """Load vLLM (about 8 s). Raises UnreachableError when it is missing or does not load."""
        if self._process is not None:
            return
        self._root = Path(tempfile.mkdtemp(prefix="metrobench-"))
        try:
            self._spawn(self._root)
            self._wait_loaded()
        except BaseException:
            self.close()
            raise

    def _spawn(self, root: Path) -> None:
        ours, theirs = channel.pair()
        self._end = ours
        command = [
            sys.executable,
            "-m",
            "metrobench.worker.forkserver",
            str(theirs.fileno()),
            str(os.getpid()),
            str(root),
            msgspec.json.encode(self._matrices).decode(),
        ]
        with theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=os.environ | {"TMPDIR": str(root)} | MALLOC,
            )

    def _wait_loaded(self) -> None:
        assert self._end is not None
        try:
            got = channel.receive(self._end, channel.FromServer, PRELOAD_TIMEOUT)
        except TimeoutError:
            raise UnreachableError(f"vLLM was not loaded after {PRELOAD_TIMEOUT:g} s", self.see_log) from None
        message = None if got is None else got[0]
        if isinstance(message, channel.Failed):
            raise UnreachableError(message.message, message.hint)
        if not isinstance(message, channel.Preloaded):
            raise UnreachableError("the process that loads vLLM ended before it was done", self.see_log)
        self.preload_seconds, self.vllm_version = message.seconds, message.vllm_version

    def launch(self, spec: WorkerSpec, timeout: float | None = None) -> Worker:
        """A worker that serves.

        Raises UnreachableError when it does not start within `timeout` seconds (None: START_TIMEOUT or
        LOADING_TIMEOUT), UsageError when vLLM refuses the spec.
        """
        started = time.monotonic()
        self._asked += 1
        reply, fds = self._ask(channel.Launch(self._asked, msgspec.Raw(encode_spec(spec))), ANSWER_TIMEOUT)
        if not isinstance(reply, channel.Forked) or len(fds) != 2:
            raise UnreachableError("the fork server did not fork a worker", self.see_log)
        worker = Worker(self, spec, reply.pid, socket.socket(fileno=fds[0]), fds[1])
        self._workers.append(worker)
        try:
            worker._wait_ready(timeout or (START_TIMEOUT if spec.stand_in else LOADING_TIMEOUT))
        except BaseException:
            worker.kill()
            raise
        worker.info = dataclasses.replace(worker.info, start_seconds=time.monotonic() - started)
        host = f"[{spec.host}]" if ":" in spec.host else spec.host
        worker.url = f"ws://{host}:{worker.info.port}/v1/realtime"
        return worker

    def kill(self, pid: int) -> str:
        """Kill a worker by its pid; how its first process ended, in words. `Worker.kill` is what callers want."""
        self._asked += 1
        reply, _ = self._ask(channel.Kill(self._asked, pid), ANSWER_TIMEOUT)
        if isinstance(reply, channel.Killed):
            if reply.left:
                raise UnreachableError(f"a killed worker left something behind: {reply.left}", self.see_log)
            return reply.ended
        raise UnreachableError("the fork server gave a strange answer", self.see_log)

    def forget(self, worker: Worker) -> None:
        """A killed worker needs no care any more."""
        with contextlib.suppress(ValueError):
            self._workers.remove(worker)

    def _ask(self, message: channel.Launch | channel.Kill, timeout: float) -> tuple[Any, list[int]]:
        with self._lock:
            if self._end is None:
                raise UnreachableError("the fork server is not running")
            try:
                channel.send(self._end, message)
                got = _answer(self._end, message.number, timeout)
            except (OSError, TimeoutError) as error:
                raise UnreachableError(f"the fork server does not answer: {error}", self.see_log) from error
        if got is None:
            raise UnreachableError("the fork server died", self.see_log)
        return got

    def close(self) -> None:
        """End the server and every worker. Does nothing the second time."""
        for worker in list(self._workers):
            with contextlib.suppress(UnreachableError):
                worker.kill()
        with self._lock:
            if self._end is not None:
                self._end.close()
                self._end = None
            if self._process is not None:
                if not self.vllm_version:
                    self._process.kill()
                _end_process(self._process)
                self._process = None
            if self._root is not None:
                shutil.rmtree(self._root, ignore_errors=True)
                self._root = None

    def __enter__(self) -> ForkServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer(end: socket.socket, number: int, timeout: float) -> tuple[Any, list[int]] | None:
    """The answer to question `number`; older answers, left by an interrupted caller, are dropped."""
    while got := channel.receive(end, channel.FromServer, timeout):
        if getattr(got[0], "number", None) == number:
            return got
        for fd in got[1]:
            os.close(fd)
    return None


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """The closed socket ends the server; what is still loading or stuck is killed."""
    try:
        process.wait(2.0)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(ANSWER_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
