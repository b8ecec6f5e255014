"""A web server on this machine that sends files as badly as asked."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has enough closes the connection."""


@dataclass
class Web:
    """Files by path, and what goes wrong with them."""

    files: dict[str, bytes] = field(default_factory=dict)
    etag: str | None = '"one"'
    ranges: bool = True
    drop_after: list[int] = field(default_factory=list)
    """Bytes after which the connection is cut, one for each answer; then none."""
    redirect_sha256: str | None = None
    """Redirect once, naming this as Hugging Face does."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range header of each request."""

    def __enter__(self) -> Web:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web._answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path
        if self.redirect_sha256 is not None and not path.startswith("/cdn"):
            request.send_response(302)
            request.send_header("Location", "/cdn" + path)
            request.send_header("X-Linked-ETag", f'"{self.redirect_sha256}"')
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        wanted = request.headers["Range"]
        self.asked.append((path, wanted))
        data = self.files.get(path.removeprefix("/cdn"))
        if data is None:
            request.send_error(404)
            return
        start = 0
        if wanted and self.ranges and request.headers["If-Range"] in (None, self.etag):
            match = re.fullmatch(r"bytes=(\d+)-", wanted)
            assert match is not None
            start = int(match[1])
            if start >= len(data):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(data)}")
                request.send_header("Content-Length", "0")
                request.end_headers()
                return
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            request.send_response(200)
        if self.etag is not None:
            request.send_header("ETag", self.etag)
        request.send_header("Content-Length", str(len(data) - start))
        request.end_headers()
        most = self.drop_after.pop(0) if self.drop_after else len(data)
        request.wfile.write(data[start : start + most])
        if most < len(data) - start:
            request.close_connection = True
