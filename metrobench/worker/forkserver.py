"""The fork server: loads vLLM once, then forks a worker whenever it is asked. One thread, always.

Run as `python -m metrobench.worker.forkserver SOCKET_FD PARENT_PID ROOT_FOLDER MATRICES` (JSON, see warmup.py).
It ends, and takes every worker with it, when its parent closes the socket, dies, or is killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from metrobench.worker import channel, osproc, preload
from metrobench.worker.warmup import Matrix


class _Server:
    def __init__(self, end: socket.socket, parent: int, root: Path) -> None:
        self.end = end
        self.parent = parent
        self.root = root
        self.folders: dict[int, Path] = {}
        self.signals, wakeup = socket.socketpair()
        self.signals.setblocking(False)
        wakeup.setblocking(False)
        self.wakeup = wakeup

    def watch_signals(self) -> None:
        """From now on signals only wake the server, so that none can cut its cleaning up short."""
        for signum in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(signum, lambda *_: None)
        signal.set_wakeup_fd(self.wakeup.fileno(), warn_on_full_buffer=False)

    def _told_to_stop(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in self.signals.recv(64):
                return True
        return os.getppid() != self.parent

    def serve(self) -> None:
        """Answer until the parent closes the socket or dies, or SIGTERM comes."""
        poller = select.poll()
        poller.register(self.end, select.POLLIN)
        poller.register(self.signals, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if self.signals.fileno() in ready and self._told_to_stop():
                return
            if self.end.fileno() in ready and not self._answer():
                return

    def _answer(self) -> bool:
        got = channel.receive(self.end, channel.ToServer, None)
        if got is not None:
            message = got[0]
            if isinstance(message, channel.Launch):
                self._launch(message.number, bytes(message.spec))
            elif isinstance(message, channel.Kill):
                channel.send(self.end, self._kill(message.number, message.pid))
        return got is not None

    def _launch(self, number: int, spec: bytes) -> None:
        folder = Path(tempfile.mkdtemp(prefix="worker-", dir=self.root))
        ours, theirs = channel.pair()
        telemetry = os.memfd_create("metrobench-telemetry")
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            _become_worker(spec, folder, theirs, telemetry, parent, (self.end, ours, self.signals, self.wakeup))
        theirs.close()
        self.folders[pid] = folder
        channel.send(self.end, channel.Forked(number, pid), (ours.fileno(), telemetry))
        ours.close()
        os.close(telemetry)

    def _kill(self, number: int, pid: int) -> channel.Killed:
        folder = self.folders.pop(pid, None)
        if folder is None:
            return channel.Killed(number, "was not running")
        left = []
        try:
            status = osproc.kill_tree(pid)
            if not self.folders:
                self._kill_strays()
        except TimeoutError as error:
            status, left = None, [str(error)]
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            left.append(f"{folder} could not be removed")
        ended = osproc.describe_status(status) if status is not None else ""
        return channel.Killed(number, ended, "; ".join(left))

    def _kill_strays(self) -> None:
        """Processes that left their worker's session and were orphaned: ours since we adopt orphans."""
        me = os.getpid()
        for pid, (parent, _, _) in osproc.process_table().items():
            if parent == me:
                osproc.kill_tree(pid)

    def close(self) -> None:
        """Kill every worker and remove every folder."""
        for pid in list(self.folders):
            self._kill(0, pid)
        shutil.rmtree(self.root, ignore_errors=True)


def _become_worker(
    spec: bytes, folder: Path, end: socket.socket, telemetry: int, parent: int, others: tuple[socket.socket, ...]
) -> NoReturn:
    """In the forked child: its own session, its own temporary folder, then the worker until it dies."""
    code = 1
    try:
        if not osproc.die_with_parent(signal.SIGKILL, parent):
            os._exit(1)
        os.setsid()
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(signum, signal.SIG_DFL)
        for other in others:
            other.close()
        os.register_at_fork(after_in_child=_follow_parent(end))
        os.environ.update(TMPDIR=str(folder), VLLM_RPC_BASE_PATH=str(folder))
        tempfile.tempdir = str(folder)
        from metrobench.worker import front

        code = front.run(spec, folder, end, telemetry)
    except BaseException as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            channel.send(end, channel.Failed(f"the worker failed: {type(error).__name__}: {error}"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _follow_parent(end: socket.socket):  # type: ignore[no-untyped-def]
    def follow() -> None:
        end.close()
        osproc.die_with_parent(signal.SIGKILL, os.getppid())

    return follow


def _end_while_loading(parent: int, root: Path) -> None:
    """Until vLLM is loaded there is only the folder to clean up: SIGTERM or the parent's death end it at once."""

    def end(signum: int, _: object) -> None:
        if signum == signal.SIGTERM or os.getppid() != parent:
            shutil.rmtree(root, ignore_errors=True)
            os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, end)


def main(argv: list[str]) -> int:
    """Preload, report, serve, clean up."""
    fd, parent, root = int(argv[0]), int(argv[1]), Path(argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_while_loading(parent, root)
    if not osproc.die_with_parent(signal.SIGUSR1, parent):
        shutil.rmtree(root, ignore_errors=True)
        return 1
    osproc.adopt_orphans()
    server = _Server(socket.socket(fileno=fd), parent, root)
    started = time.monotonic()
    outcome = preload.load(msgspec.json.decode(argv[3], type=list[Matrix]))
    server.watch_signals()
    try:
        if isinstance(outcome, channel.Failed):
            channel.send(server.end, outcome)
            return 1
        gc.collect()
        gc.freeze()
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
        channel.send(server.end, channel.Preloaded(time.monotonic() - started, threads, outcome))
        server.serve()
    except OSError:
        return 1
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
