"""The load process: `python -m metrobench.load.driver`, one end of a socket pair as its standard input.

The first line on the socket is the LoadSpec as JSON; commands follow it, events go back. The process ends with its
parent.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable, Iterator
from time import monotonic

import msgspec
import uvloop

from metrobench.corpus.pattern import each_chunk, session_runs
from metrobench.corpus.stream import SILENCE, ChunkTable, build_table, load_table
from metrobench.corpus.turns import turns
from metrobench.endpoints.base import Endpoint, FrameClass
from metrobench.endpoints.registry import make_endpoint
from metrobench.errors import MetrobenchError, UnreachableError, UsageError
from metrobench.load.aftermath import Aftermath
from metrobench.load.conn import Book, Conn
from metrobench.load.connect import accept_all, connect_all, greeted
from metrobench.load.costly import Kept, Span, bounded, spoken
from metrobench.load.files import allow_files
from metrobench.load.finish import chunk_frame, finisher
from metrobench.load.link import Link
from metrobench.load.open_run import OpenRun
from metrobench.load.paced import PacedRun
from metrobench.load.saturate import SaturateRun
from metrobench.load.sender import Sender
from metrobench.load.spec import LoadEvent, LoadSpec, tape_of
from metrobench.load.spool import Spool
from metrobench.load.tape import Head, Recorder
from metrobench.measure.facts import SessionFacts
from metrobench.schedule import last_chunk, make_ring
from metrobench.units import CHUNK

PAUSE = 500
"""Chunks of a pause in a row."""
GOODBYE = 1.0
"""Seconds that servers have to close their sessions."""
LEAD = 0.3
"""Seconds from the last acceptance to t0."""


class Driver:
    """One run from the connections to the goodbye."""

    def __init__(self, spec: LoadSpec, link: Link) -> None:
        """Decodes the audio and makes every message once. Raises UsageError."""
        self._spec = spec
        self._link = link
        self._endpoint = make_endpoint(
            spec.protocol,
            spec.url,
            unit=spec.unit,
            first_ready=spec.first_ready,
            sample_rate=spec.sample_rate,
            access=spec.access,
        )
        table = audio_table(spec)
        runs = [self._audio(table, number) for number in range(spec.sessions)]
        if self._endpoint.costly:
            spans = [bounded(run, round(spec.audio_seconds / CHUNK)) for run in runs]
            kept = Kept(spec.table and spec.table.with_suffix(f".{spec.protocol}"))
            self._frames, pause = encode_spoken(table, self._endpoint, spoken(table, spans), kept)
            runs = [itertools.cycle(run) for run in spans]
        else:
            self._frames, pause = encode_table(table, self._endpoint)
        self._runs = [lay_out(run, pause) for run in runs]
        self._schedule = spec.schedule()
        spool = Spool(spec.spool)
        ready = [(last_chunk(frame, spec.unit, spec.first_ready) + 1) * CHUNK for frame in range(spool.frames)]
        self._book = Book(self._endpoint, spool, ready)
        self._ring = make_ring(self._schedule)
        slots = {session: slot for slot, session in enumerate(self._ring.order)}
        self._conns = [
            Conn(self._book, SessionFacts(number, float(phase)), slots[number], self._recorder(number))
            for number, phase in enumerate(self._schedule.phases)
        ]
        self._run: PacedRun | SaturateRun | OpenRun | None = None
        self._after: Aftermath | None = None

    def _recorder(self, session: int) -> Recorder | None:
        spec = self._spec
        path = tape_of(spec.record_all, session) if spec.record_all is not None else spec.record_wire
        if path is None or (session and spec.record_all is None):
            return None
        head = Head(spec.protocol, spec.unit, spec.first_ready, spec.sample_rate, self._endpoint.binary)
        return Recorder(path, head, spec.access.clean)

    def _audio(self, table: ChunkTable, session: int) -> Iterator[tuple[int, int]]:
        spec = self._spec
        if spec.scripts is not None:
            return itertools.chain(spec.scripts[session], itertools.repeat((SILENCE, PAUSE)))
        if self._endpoint.frame_class is FrameClass.TURN:
            return turns(table, spec.seed, session, spec.unit, spec.first_ready)
        return session_runs(table.clips, spec.seed, session, spec.talk)

    async def run(self) -> None:
        """Connect, fill, stream, say goodbye.

        Raises UnreachableError when no session can be opened, UsageError when the endpoint's frames are not ours.
        """
        loop = asyncio.get_running_loop()
        loop.add_reader(self._link.fd, self._command)
        self._watch_parent(os.getppid())
        self._link.tell(LoadEvent("ready"))
        if self._spec.timetable is None:
            await self._open_sessions()
        else:
            logging.getLogger("picows").setLevel(logging.CRITICAL)
        # no garbage collection may stop the loop during the run
        gc.collect()
        gc.freeze()
        gc.disable()
        run = self._run = self._make_run()
        run.start(monotonic() + LEAD)
        reason = await run.finished
        if self._after is not None:
            self._after.start()
            await self._after.finished
        self._link.tell(run.progress("stopped", reason))
        await self._goodbye()

    async def _open_sessions(self) -> None:
        spec, conns = self._spec, self._conns
        await connect_all(conns, self._endpoint, spec.connect_timeout)
        connected = sum(not conn.gone for conn in conns)
        if not connected:
            raise UnreachableError(f"no session could be opened at {spec.url}: {conns[0].facts.reason}", _HINT)
        self._link.tell(LoadEvent("connected", connected=connected, refused=len(conns) - connected))
        ticker = asyncio.create_task(self._tell_filling())
        fill = spec.fill_tokens
        if fill:
            await greeted(conns, spec.connect_timeout)
        greeting = next((conn.greeting for conn in conns if conn.greeting), b"")
        if not self._endpoint.can_fill(greeting):
            fill = 0
        await accept_all(conns, fill, spec.fill_timeout if fill else spec.connect_timeout)
        ticker.cancel()
        greeting = next((conn.greeting for conn in conns if conn.greeting), b"")
        acceptance = next((conn.acceptance for conn in conns if conn.acceptance), b"")
        if wrong := self._endpoint.mismatch(greeting) or self._endpoint.mismatch(acceptance):
            raise UsageError(wrong, "name the profile that fits it with --model")
        event = self._filling("filled")
        event.greeting = spec.access.clean(greeting.decode("utf-8", "replace"))
        self._link.tell(event)

    def _filling(self, kind: str) -> LoadEvent:
        refused = [conn.facts.reason for conn in self._conns if conn.over]
        filled = sum(conn.accepted for conn in self._conns)
        return LoadEvent(kind, filled=filled, refused=len(refused), message=refused[0] if refused else "")

    async def _tell_filling(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._link.tell(self._filling("filling"))

    def _make_run(self) -> PacedRun | SaturateRun | OpenRun:
        spec, book, conns, tell = self._spec, self._book, self._conns, self._link.tell
        if spec.mode == "saturate":
            streams = [self._stream(run, session) for session, run in enumerate(self._runs)]
            return SaturateRun(spec, book, conns, streams, tell)
        sender = Sender(book, conns, self._ring, self._frames, self._runs, finisher(self._endpoint))
        if spec.timetable is not None:
            return OpenRun(spec, spec.timetable, self._endpoint, book, conns, sender, tell)
        return PacedRun(spec, self._schedule, book, conns, sender, tell)

    def _stream(self, run: Iterator[tuple[int, int]], session: int) -> Iterator[bytes]:
        """One session's frames, endless."""
        finish = finisher(self._endpoint)
        frames = map(self._frames.__getitem__, each_chunk(run))
        return frames if finish is None else map(finish, frames, itertools.count(), itertools.repeat(session))

    def _watch_parent(self, parent: int) -> None:
        """A copy of the parent's socket in some other process would hide its death."""
        if os.getppid() != parent:
            os._exit(1)
        asyncio.get_running_loop().call_later(1.0, self._watch_parent, parent)

    def _command(self) -> None:
        commands = self._link.commands()
        if commands is None:
            os._exit(1)  # the parent is gone: nobody is left to tell
        for command in commands:
            if command.kind == "stop":
                if self._run is None:
                    os._exit(0)  # nothing has begun that would need an end
                self._run.stop("asked to stop")
                if self._after is not None:
                    self._after.stop()
            elif command.kind == "aftermath" and isinstance(self._run, PacedRun):
                self._after = Aftermath(self._book, self._conns, self._run.sender, self._spec.budget, self._link.tell)
                self._run.stop("its aftermath began")
            elif command.kind == "extend" and self._run is not None:
                self._run.extend(command.frames, command.stop_after_misses)

    async def _goodbye(self) -> None:
        for conn in self._conns:
            conn.leave()
        deadline = monotonic() + GOODBYE
        while monotonic() < deadline and not all(conn.gone for conn in self._conns):
            await asyncio.sleep(0.01)
        for conn in self._conns:
            conn.drop()
        await asyncio.sleep(0)


_HINT = "check the address, and that the server is up"


def lay_out(runs: Iterator[tuple[int, int]], pause: int) -> Iterator[tuple[int, int]]:
    """Runs in which a pause is a row of chunks as well: PAUSE of them begin at number `pause`."""
    for first, count in runs:
        if first != SILENCE:
            yield first, count
            continue
        while count > 0:
            yield pause, min(count, PAUSE)
            count -= PAUSE


def audio_table(spec: LoadSpec) -> ChunkTable:
    """The chunks of the run: those prepared before, or decoded here. Raises UsageError."""
    if spec.table is not None:
        return load_table(spec.table)
    return build_table(spec.clips, spec.sample_rate, spec.noise, spec.gain)


def encode_table(table: ChunkTable, endpoint: Endpoint) -> tuple[list[bytes], int]:
    """The frame of every distinct chunk, by chunk number, then PAUSE of them to be heard in pauses; the number of the
    first of those."""
    frames = [chunk_frame(endpoint.encode_chunk(table.pcm(chunk)), endpoint) for chunk in range(len(table.chunks))]
    return frames + [frames[chunk] for chunk in _bed(table)], len(frames)


def encode_spoken(table: ChunkTable, endpoint: Endpoint, clips: Iterable[Span], kept: Kept) -> tuple[list[bytes], int]:
    """`encode_table` with the frames of these clips only, for a costly codec; each clip, and a whole pause, is encoded
    as one piece."""
    frames = [b""] * len(table.chunks)
    for start, count in clips:
        messages = kept.get(start)
        if messages is None:
            messages = endpoint.encode_clip([table.pcm(start + place) for place in range(count)])
            kept.put(start, messages)
        frames[start : start + count] = [chunk_frame(message, endpoint) for message in messages]
    kept.save()
    pause = endpoint.encode_clip([table.pcm(chunk) for chunk in _bed(table)])
    return frames + [chunk_frame(message, endpoint) for message in pause], len(frames)


def _bed(table: ChunkTable) -> list[int]:
    """The chunks of a pause."""
    first, count = table.bed
    return [first + place % count for place in range(PAUSE)]


def use_cores(cores: frozenset[int]) -> None:
    """Run on these cores only, even if the parent keeps off them. Raises UsageError when none of them may be used."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise UsageError(f"none of the cores {sorted(cores)} may be used by the load process") from error


def main() -> int:
    """Read the spec, run it, report. Errors go to the parent as a `failed` event, unexpected ones to stderr as well."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link = Link(socket.socket(fileno=os.dup(0)))
    line = link.read_line()
    if not line:
        return 1
    failure: LoadEvent | None = None
    try:
        spec = msgspec.json.decode(line, type=LoadSpec, dec_hook=lambda kind, value: kind(value))
        if spec.cores is not None:
            use_cores(spec.cores)
        allow_files(spec.sessions)
        driver = Driver(spec, link)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(driver.run())
    except MetrobenchError as error:
        kinds = {UsageError: "usage", UnreachableError: "unreachable"}
        failure = LoadEvent("failed", message=error.message, hint=error.hint, cause=kinds.get(type(error), "invalid"))
    except Exception as error:
        traceback.print_exc()
        failure = LoadEvent("failed", message=f"the load process failed: {error}", cause="invalid")
    if failure is not None:
        link.tell(failure)
    link.close()
    return 0 if failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
