"""One file from the web, in pieces if need be: what has arrived stays, and the next try goes on from there."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from metrobench.errors import NotValidError, UnreachableError, UsageError
from metrobench.resources import check_room
from metrobench.units import data_size

if TYPE_CHECKING:
    import httpx

TRIES = 4
"""Tries in a row that bring nothing, after which a download gives up."""
WAIT = 1.0
"""Seconds before a further try; twice as long before each one after."""
CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 30.0
"""Seconds."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes here and in all, if that is known."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A downloaded file."""

    path: Path
    whole: bool
    """False where only its beginning was asked for."""
    sha256: str | None
    """What the server says it is."""


class _Tag(msgspec.Struct):
    """What a downloaded file, or the beginning of one, is."""

    url: str
    version: str | None
    """ETag or date; None: the server names none, and the file is begun anew."""
    sha256: str | None = None
    total: int | None = None


class Download:
    """One file on its way to `target`. While it is under way, its beginning is in `target`.part."""

    def __init__(self, url: str, target: Path, tell: Progress, most: int | None = None) -> None:
        """`most`: end after this many bytes."""
        self._url = url
        self._target = target
        self._tell = tell
        self._most = most
        self._part = target.with_name(target.name + ".part")
        self._tag_file = target.with_name(target.name + ".json")
        self._tag = _Tag(url, None)

    def run(self) -> Arrived:
        """Get the file, with further tries where the connection drops.

        Raises UnreachableError where the server cannot be reached, refuses or keeps dropping the connection, and
        UsageError where there is no room.
        """
        import httpx

        if self._target.is_file():
            return Arrived(self._target, True, self._read_tag().sha256)
        tries, here = 0, self._begin()
        timeout = httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
        with httpx.Client(follow_redirects=True, timeout=timeout) as client:
            while True:
                trouble = self._attempt(client)
                if not trouble:
                    return self._finish()
                before, here = here, self._size()
                tries = 0 if here > before else tries + 1
                if tries >= TRIES:
                    raise UnreachableError(
                        f"{self._host} keeps dropping the connection: {trouble}", self._resume_hint()
                    )
                time.sleep(WAIT * 2.0**tries)

    def _begin(self) -> int:
        """Bytes that are here from an earlier try."""
        try:
            self._target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {self._target.parent}: {error.strerror}") from error
        self._tag = self._read_tag()
        if self._tag.url != self._url or self._tag.version is None:
            self._part.unlink(missing_ok=True)
        return self._size()

    def _read_tag(self) -> _Tag:
        try:
            return msgspec.json.decode(self._tag_file.read_bytes(), type=_Tag)
        except (OSError, msgspec.DecodeError):
            return _Tag(self._url, None)

    def _attempt(self, client: httpx.Client) -> str:
        """One request; empty when all has arrived, else what went wrong on the way."""
        import httpx

        here = self._size()
        if self._enough(here):
            return ""
        headers = {"Accept-Encoding": "identity"}
        if here and self._tag.version is not None:
            headers |= {"Range": f"bytes={here}-", "If-Range": self._tag.version}
        try:
            with client.stream("GET", self._url, headers=headers) as response:
                return self._take(response, here)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise UnreachableError(f"cannot reach {self._host}: {_reason(error)}", self._resume_hint()) from error
        except httpx.HTTPError as error:
            return _reason(error)

    def _take(self, response: httpx.Response, here: int) -> str:
        """Write the body behind what is here, or anew where the server sends all of it."""
        if response.status_code == 416 and here == _total(response, 0):
            return ""
        if response.status_code == 416:
            self._part.unlink()
            return "the file there has changed"
        if response.status_code not in (200, 206):
            words = f"{response.status_code} {response.reason_phrase}".strip()
            raise UnreachableError(f"{self._host} answers {words} for {self._url}", "give another address by --mirror")
        goes_on = response.status_code == 206 and _range_start(response) == here
        if response.status_code == 206 and not goes_on:
            self._part.unlink(missing_ok=True)
            return "the server sent another part than asked for"
        self._note(response, here if goes_on else 0)
        self._write(response, here if goes_on else 0)
        if self._tag.total is not None and self._size() < self._tag.total and not self._enough(self._size()):
            return "the connection was closed too early"
        return ""

    def _note(self, response: httpx.Response, here: int) -> None:
        """Remember what this is, so that a later try can go on; see whether there is room for it."""
        version = response.headers.get("etag") or response.headers.get("last-modified")
        # a weak ETag may not be used to go on (RFC 9110, If-Range)
        version = None if version is None or version.startswith("W/") else version
        self._tag = _Tag(self._url, version, _linked_sha256(response), _total(response, here))
        wanted = min((size for size in (self._tag.total, self._most) if size is not None), default=0)
        check_room(self._target.parent, max(0, wanted - here))
        self._tag_file.write_bytes(msgspec.json.encode(self._tag))

    def _write(self, response: httpx.Response, here: int) -> None:
        try:
            with self._part.open("r+b" if here else "wb") as file:
                file.seek(here)
                for piece in response.iter_raw():
                    file.write(piece if self._most is None else piece[: max(0, self._most - here)])
                    here = min(here + len(piece), self._most or here + len(piece))
                    self._tell(here, self._tag.total)
                    if self._enough(here):
                        return
        except OSError as error:
            raise UsageError(f"cannot write to {self._part.parent}: {error.strerror}", self._resume_hint()) from error

    def _finish(self) -> Arrived:
        whole = self._tag.total is None or self._size() >= self._tag.total
        if whole:
            self._part.replace(self._target)
        return Arrived(self._target if whole else self._part, whole, self._tag.sha256)

    def _enough(self, here: int) -> bool:
        return self._most is not None and here >= self._most

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.is_file() else 0

    @property
    def _host(self) -> str:
        return self._url.partition("://")[2].partition("/")[0] or self._url

    def _resume_hint(self) -> str:
        here = self._size()
        return f"{data_size(here)} are here; the same command goes on from there" if here else _OFFLINE


_OFFLINE = "check the network and try again; a copy that you have: metrobench corpus add DIR"


def check_sum(path: Path, kind: str, expected: str) -> None:
    """Raises NotValidError, and deletes the file, where its checksum (`md5` or `sha256`) is another."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected:
        path.unlink()
        raise NotValidError(
            f"{path.name}: its {kind} is {found}, published is {expected}",
            "it was deleted; try again, or get it from elsewhere by --mirror",
        )


def _total(response: httpx.Response, here: int) -> int | None:
    """Bytes of the whole file."""
    whole = response.headers.get("content-range", "").rpartition("/")[2]
    if whole.isdecimal():
        return int(whole)
    length = response.headers.get("content-length", "")
    return here + int(length) if length.isdecimal() and "content-encoding" not in response.headers else None


def _range_start(response: httpx.Response) -> int | None:
    start = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdecimal() else None


def _linked_sha256(response: httpx.Response) -> str | None:
    """The checksum that Hugging Face names beside a large file, on the answer before its redirect."""
    for answer in (*response.history, response):
        value = answer.headers.get("x-linked-etag", "").strip('"')
        if len(value) == 64 and all(digit in "0123456789abcdef" for digit in value):
            return str(value)
    return None


def _reason(error: Exception) -> str:
    words = re.sub(r"^\[Errno -?\d+\] ", "", str(error).partition("\n")[0])
    return words or type(error).__name__
