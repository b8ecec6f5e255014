"""A server on this machine with a metrics page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGES = Path(__file__).parent / "pages"


@contextmanager
def metrics_page(page: Callable[[float], str | None]) -> Iterator[str]:
    """The address of a server that answers what `page` makes of the seconds since the first request; None: 404."""
    begin: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            begin.append(time.monotonic())
            text = page(begin[-1] - begin[0])
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def vllm(used: float, tokens: float) -> str:
    """The page of a vLLM with `used` (0 to 1) of its pool filled, after `tokens` tokens."""
    page = (PAGES / "vllm.txt").read_text()
    return page.replace("} 0.431", f"}} {used:.4f}").replace("} 39120.0", f"}} {tokens:.0f}")
