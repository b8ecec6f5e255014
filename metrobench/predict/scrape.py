"""Metrics pages over HTTP: one polite request at a time, to the address that was given and nowhere else."""

from __future__ import annotations

import re
from types import TracebackType
from urllib.parse import urlsplit

import httpx

import metrobench
from metrobench.errors import UnreachableError, UsageError

CONNECT, ANSWER = 3.0, 10.0
"""Seconds that a connect and an answer may take."""
LARGEST = 16 << 20
"""Bytes of the largest page that is read."""
MOST_REDIRECTS = 3


def metrics_url(text: str) -> str:
    """The address of a page; a bare server's is its /metrics. Raises UsageError."""
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise UsageError(f"--metrics {text!r} is not an address", "write http://HOST:PORT/metrics")
    return parts._replace(path="/metrics").geturl() if parts.path in ("", "/") else text


class Scraper:
    """Reads one page again and again over one connection."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        """`transport`: in place of the network. Raises UsageError."""
        self.url = metrics_url(url)
        self._client = httpx.Client(
            timeout=httpx.Timeout(ANSWER, connect=CONNECT),
            headers={"user-agent": f"metrobench/{metrobench.__version__}", "accept": "text/plain"},
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    def read(self) -> str:
        """The page's text. Raises UnreachableError."""
        url = httpx.URL(self.url)
        try:
            for _ in range(MOST_REDIRECTS + 1):
                with self._client.stream("GET", url) as answer:
                    if not answer.is_redirect:
                        return self._text(answer)
                    url = self._next(url, answer)
        except httpx.TimeoutException as error:
            raise UnreachableError(f"{self.url} did not answer within {ANSWER:.0f} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise UnreachableError(f"cannot read {self.url}: {_cause(error)}", "check the address") from error
        raise UnreachableError(f"{self.url} redirects in circles")

    def _text(self, answer: httpx.Response) -> str:
        if answer.status_code != 200:
            raise UnreachableError(
                f"{self.url} answers {answer.status_code} {answer.reason_phrase}".rstrip(),
                "vLLM's page is at /metrics; SGLang has one with --enable-metrics",
            )
        page = bytearray()
        for part in answer.iter_bytes():
            page += part
            if len(page) > LARGEST:
                raise UnreachableError(f"{self.url} is larger than {LARGEST >> 20} MiB: no metrics page")
        return page.decode("utf-8", "replace")

    def _next(self, url: httpx.URL, answer: httpx.Response) -> httpx.URL:
        """Where a redirect leads, on the same server."""
        target = url.join(answer.headers.get("location", ""))
        if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
            raise UnreachableError(f"{self.url} redirects to {target.host}", "give the address of the server itself")
        return target

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Scraper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cause(error: Exception) -> str:
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(error).strip()) or type(error).__name__
    return text.splitlines()[0][:200]
