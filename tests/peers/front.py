"""One address for several servers that hold one session each: a connection goes to a server that has none, else to
the one with the fewest, byte by byte."""

from __future__ import annotations

import asyncio
import sys

READ = 65_536


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bytes of one direction until either end closes."""
    try:
        while data := await reader.read(READ):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(port: int, ports: list[int]) -> None:
    """Listen on `port`, pass on to `ports`."""
    open_at = dict.fromkeys(ports, 0)

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen = min(ports, key=open_at.__getitem__)
        open_at[chosen] += 1
        try:
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", chosen)
            await asyncio.gather(pump(reader, back_writer), pump(back_reader, writer))
        except OSError:
            writer.close()
        finally:
            open_at[chosen] -= 1

    async with await asyncio.start_server(meet, "127.0.0.1", port, backlog=1024) as server:
        await server.serve_forever()


if __name__ == "__main__":
    first, *rest = map(int, sys.argv[1:])
    asyncio.run(serve(first, rest))
