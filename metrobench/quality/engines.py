"""Engines in processes of their own, one at a time each, forked from a process that has loaded vLLM once."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import Struct

from metrobench.errors import UnreachableError
from metrobench.policy import RECYCLE, UNBOUNDED, KvPolicy, parse_policy
from metrobench.quality import probe
from metrobench.quality.formats import CHAT, FREE
from metrobench.quality.probe import Known, Likelihood, Plan, Reply
from metrobench.quality.questions import Question
from metrobench.quality.recycle import Recycling
from metrobench.worker import preload
from metrobench.worker.launcher import MALLOC

STOP_TIMEOUT = 5.0
LOG = "METROBENCH_ENGINE_LOG"
"""Environment variable: the file that takes what vLLM prints."""
Seen = Callable[[int], None]


class EngineSpec(Struct, frozen=True):
    """One engine."""

    folder: str
    """A checkpoint with its tokenizer."""
    policy: str
    """On whole blocks."""
    sessions: int
    """Most sessions side by side."""
    length: int
    """Most tokens of a session."""
    block: int
    """Tokens of a KV block."""
    dtype: str
    """auto: bfloat16 where the processor has it, else float32."""
    seed: int


class Engine:
    """One engine process. Calls wait for their result; `kill` ends it at any time."""

    def __init__(self, context: Any, spec: EngineSpec, log: Path, temporary: str) -> None:
        self._ours, theirs = context.Pipe()
        self._log = log
        self._process = context.Process(target=_serve, args=(theirs, spec, temporary), daemon=True)
        self._process.start()
        theirs.close()

    def calibrate(self, form: str, questions: Sequence[Question], answer: int) -> list[Known]:
        """See probe.calibrate; `form` is free or chat, here and below."""
        return self._call(lambda _: None, "calibrate", form, tuple(questions), answer)  # type: ignore[no-any-return]

    def converse(self, form: str, plan: Plan, seen: Seen) -> list[Reply]:
        """See probe.converse."""
        return self._call(seen, "converse", form, plan)  # type: ignore[no-any-return]

    def re_render(self, form: str, plan: Plan, window: int, seen: Seen) -> list[Reply]:
        """See probe.re_render."""
        return self._call(seen, "re_render", form, plan, window)  # type: ignore[no-any-return]

    def replay(self, form: str, plan: Plan) -> list[Likelihood]:
        """See probe.replay."""
        return self._call(lambda _: None, "replay", form, plan)  # type: ignore[no-any-return]

    def perplexity(self, text: str, most: int) -> list[float]:
        """See probe.perplexity, of the first `most` tokens of a text."""
        return self._call(lambda _: None, "perplexity", text, most)  # type: ignore[no-any-return]

    def _call(self, seen: Seen, name: str, *args: Any) -> Any:
        try:
            self._ours.send((name, args))
            while True:
                kind, value = self._ours.recv()
                if kind == "seen":
                    seen(value)
                elif kind == "failed":
                    raise UnreachableError(f"the engine failed: {value}", f"see {self._log}")
                else:
                    return value
        except (EOFError, OSError) as error:
            raise UnreachableError("the engine process died", f"see {self._log}") from error

    def kill(self) -> None:
        """End it and wait for that. Does nothing the second time."""
        self._process.kill()
        self._process.join(STOP_TIMEOUT)


class Engines:
    """Context manager around all engines of one command."""

    def __init__(self, log: Path) -> None:
        """`log`: takes what vLLM prints."""
        self._log = log
        self._engines: list[Engine] = []
        self._stopped = False
        self._context = multiprocessing.get_context("forkserver")
        self._temporary = tempfile.TemporaryDirectory(prefix="metrobench-quality-", ignore_cleanup_errors=True)

    def start(self, spec: EngineSpec) -> Engine:
        """A new engine; its first call tells whether it came up. Raises UnreachableError after `stop`."""
        if self._stopped:
            raise UnreachableError("the engines were stopped")
        engine = Engine(self._context, spec, self._log, self._temporary.name)
        self._engines.append(engine)
        return engine

    def __enter__(self) -> Engines:
        # read by the fork server when it is started, and by its allocator even before that
        os.environ.update({**preload.ENVIRONMENT, **os.environ, **MALLOC, LOG: str(self._log.resolve())})
        self._context.set_forkserver_preload(["metrobench.quality.preloaded"])
        with _errors_to(self._log):
            forkserver.ensure_running()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        _stop_forkserver()
        self._temporary.cleanup()

    def stop(self) -> None:
        """Kill all engines, for good; calls that wait for one fail."""
        self._stopped = True
        for engine in list(self._engines):
            engine.kill()


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """What is started meanwhile, multiprocessing's watcher of semaphores too, complains into `log`."""
    kept, file = os.dup(2), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


def _stop_forkserver() -> None:
    """multiprocessing would let it live as long as this process."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def _serve(end: Connection, spec: EngineSpec, temporary: str) -> None:
    """The child: one engine, then calls until the parent closes the pipe. `temporary`: for what vLLM leaves behind."""
    tempfile.tempdir = os.environ["TMPDIR"] = temporary
    # or a lock made here is a named semaphore, which a killed process leaves behind
    multiprocessing.set_start_method("fork", force=True)
    try:
        model = _build(spec)
        while True:
            name, args = end.recv()
            end.send(("done", _answer(model, name, args, lambda count: end.send(("seen", count)))))
    except EOFError:
        pass
    except BaseException as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [""]
        end.send(("failed", f"{type(error).__name__}: {lines[0]}"))
    finally:
        os._exit(0)  # or the interpreter's end prints pages about what was not freed


def _build(spec: EngineSpec) -> Any:
    from metrobench.quality import preloaded
    from metrobench.quality.engine import EngineModel

    if preloaded.FAILED is not None:
        raise RuntimeError(preloaded.FAILED.message)
    policy = parse_policy(spec.policy, spec.block)
    recycled = policy.kind == RECYCLE
    whole = KvPolicy(UNBOUNDED) if recycled else policy
    model = EngineModel(Path(spec.folder), whole, spec.sessions, spec.length, spec.block, spec.dtype, spec.seed)
    return Recycling(model, policy.window) if recycled else model


def _answer(model: Any, name: str, args: tuple[Any, ...], seen: Seen) -> Any:
    if name == "perplexity":
        text, most = args
        return probe.perplexity(model, model.encode(text)[:most])
    form = {"free": FREE, "chat": CHAT}[args[0]]
    if name == "calibrate":
        return probe.calibrate(model, form, *args[1:])
    if name == "converse":
        return probe.converse(model, form, args[1], seen)
    if name == "re_render":
        return probe.re_render(model, form, args[1], args[2], seen)
    return probe.replay(model, form, args[1])
