"""`metrobench replay`: a recorded session as a server."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from metrobench.cli import options


@click.command()
@click.argument("recording", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option(
    "--port", type=options.Whole(0, 65_535), default=8911, show_default=True, metavar="N", help="0: any free port."
)
@options.debug
def replay(recording: Path, host: str, port: int) -> None:
    """A session that --record-wire recorded, as a server that says it again.

    Every connection hears what the recorded session heard, at the same moments of its audio.
    """
    import asyncio

    from metrobench.cli.live import Interrupts
    from metrobench.cli.output import say
    from metrobench.load.replay import serve
    from metrobench.load.tape import read_tape

    tape = read_tape(recording)

    async def listen(interrupts: Interrupts) -> None:
        server, taken = await serve(tape, host, port)
        async with server:
            said = sum(entry.who == "server" for entry in tape.entries)
            say(f"{tape.head.protocol} · {said} messages of the server · frames of {tape.head.unit * 1000:g} ms")
            say(f"listening on ws://{host}:{taken}/v1/realtime · Ctrl-C ends it")
            while interrupts.signum is None:
                await asyncio.sleep(0.1)

    with Interrupts() as interrupts:
        asyncio.run(listen(interrupts))
    sys.exit(128 + (interrupts.signum or 0))
