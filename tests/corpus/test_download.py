from __future__ import annotations

import errno
import hashlib
import random
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metrobench.corpus import download
from metrobench.corpus.download import Arrived, Download, check_sum
from metrobench.errors import NotValidError, UnreachableError, UsageError
from tests.corpus.web import Web

DATA = random.Random(0).randbytes(1_500_000)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "WAIT", 0.0)


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({"/a": DATA}) as web:
        yield web


def get(web: Web, folder: Path, most: int | None = None) -> Arrived:
    return Download(web.url("/a"), folder / "a", lambda here, total: None, most).run()


def test_a_file_arrives_whole(web: Web, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    arrived = Download(web.url("/a"), tmp_path / "deep" / "a", lambda *at: seen.append(at)).run()
    assert (arrived.path.read_bytes(), arrived.whole) == (DATA, True)
    assert seen[-1] == (len(DATA), len(DATA))
    assert not arrived.path.with_name("a.part").exists()


def test_a_dropped_connection_goes_on_where_it_stopped(web: Web, tmp_path: Path) -> None:
    web.drop_after = [600_000, 300_000]
    assert get(web, tmp_path).path.read_bytes() == DATA
    ranges = [wanted for _, wanted in web.asked]
    assert ranges == [None, "bytes=600000-", "bytes=900000-"]


def test_a_later_try_goes_on_where_a_broken_one_stopped(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.drop_after = [600_000, *[0] * 20]
    monkeypatch.setattr(download, "TRIES", 2)
    with pytest.raises(UnreachableError, match="keeps dropping") as caught:
        get(web, tmp_path)
    assert "600 kB are here; the same command goes on from there" in caught.value.hint
    web.drop_after, web.asked = [], []
    assert get(web, tmp_path).path.read_bytes() == DATA
    assert web.asked == [("/a", "bytes=600000-")]


def test_a_file_that_changed_meanwhile_is_begun_anew(web: Web, tmp_path: Path) -> None:
    get(web, tmp_path, most=600_000)
    web.files["/a"], web.etag = DATA[::-1], '"two"'
    assert get(web, tmp_path).path.read_bytes() == DATA[::-1]


def test_a_file_that_shrank_meanwhile_is_begun_anew(web: Web, tmp_path: Path) -> None:
    get(web, tmp_path, most=600_000)
    web.files["/a"] = DATA[:1000]
    assert get(web, tmp_path).path.read_bytes() == DATA[:1000]


@pytest.mark.parametrize("change", [{"ranges": False}, {"etag": None}, {"etag": 'W/"weak"'}])
def test_a_server_that_cannot_go_on_begins_anew(web: Web, tmp_path: Path, change: dict[str, Any]) -> None:
    for name, value in change.items():
        setattr(web, name, value)
    web.drop_after = [600_000]
    assert get(web, tmp_path).path.read_bytes() == DATA


def test_another_address_does_not_continue_the_first_one(web: Web, tmp_path: Path) -> None:
    web.files["/b"] = b"other"
    get(web, tmp_path, most=600_000)
    assert Download(web.url("/b"), tmp_path / "a", lambda *at: None).run().path.read_bytes() == b"other"


def test_the_beginning_alone_on_request(web: Web, tmp_path: Path) -> None:
    arrived = get(web, tmp_path, most=700_001)
    assert not arrived.whole
    assert arrived.path.read_bytes() == DATA[:700_001]


def test_a_limit_beyond_the_end_is_no_limit(web: Web, tmp_path: Path) -> None:
    assert get(web, tmp_path, most=10**9).whole


def test_what_is_here_is_not_downloaded_again(web: Web, tmp_path: Path) -> None:
    web.redirect_sha256 = "ab" * 32
    first = get(web, tmp_path)
    web.asked = []
    assert get(web, tmp_path) == first
    assert web.asked == []


def test_the_checksum_on_a_redirect_is_noted(web: Web, tmp_path: Path) -> None:
    web.redirect_sha256 = hashlib.sha256(DATA).hexdigest()
    assert get(web, tmp_path).sha256 == web.redirect_sha256


def test_what_the_server_refuses_is_named(web: Web, tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="404 Not Found"):
        Download(web.url("/none"), tmp_path / "a", lambda *at: None).run()


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/a", "nonsense", "ftp://127.0.0.1/a", "http://[bad/a"])
def test_an_address_that_cannot_be_reached_is_one_clear_error(tmp_path: Path, url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = url.format(port=free.getsockname()[1])
    with pytest.raises(UnreachableError, match="cannot reach") as caught:
        Download(url, tmp_path / "a", lambda *at: None).run()
    assert caught.value.exit_code == 4
    assert "Errno" not in caught.value.message


def test_no_room_is_said_before_the_download(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(UsageError, match=r"1\.5 MB needed, 1 MB free"):
        get(web, tmp_path)
    assert get(web, tmp_path, most=900_000).path.stat().st_size == 900_000


def test_a_disk_that_fills_up_is_one_clear_error(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def full(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if path.suffix == ".part" and mode == "wb":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UsageError, match="No space left on device"):
        get(web, tmp_path)


def test_a_folder_that_cannot_be_made_is_one_clear_error(web: Web, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        Download(web.url("/a"), tmp_path / "file" / "x" / "a", lambda *at: None).run()


def test_a_wrong_checksum_deletes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"hello")
    check_sum(path, "md5", hashlib.md5(b"hello").hexdigest())
    with pytest.raises(NotValidError, match="published is"):
        check_sum(path, "sha256", "00")
    assert not path.exists()
