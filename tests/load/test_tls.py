"""Which certificates of wss:// addresses are trusted."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from picows import WSListener, WSMsgType, WSTransport, ws_create_server

from metrobench.endpoints.base import Access
from metrobench.errors import UnreachableError, UsageError
from metrobench.load.connect import tls_context, tls_of
from metrobench.load.detect import detect

GREETING = b'{"type":"session.created","id":"sess-1","created":1}'


class Greeter(WSListener):  # type: ignore[misc]
    def on_ws_connected(self, transport: WSTransport) -> None:
        transport.send(WSMsgType.TEXT, GREETING)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run(
        ["openssl", "req", "-x509", *key, *name, "-out", "cert.pem"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def address(certificate: Path) -> Iterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(ws_create_server(lambda _: Greeter(), "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime"
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    server.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_an_unknown_certificate_is_not_trusted(address: str) -> None:
    with pytest.raises(UnreachableError, match="certificate is not valid"):
        detect(address, Access())


def test_the_user_s_authority_is_trusted(address: str, certificate: Path) -> None:
    assert detect(address, Access(ca_file=str(certificate / "cert.pem"))).protocol == "vllm-realtime"


def test_any_certificate_is_accepted_where_the_user_says_so(address: str) -> None:
    assert detect(address, Access(insecure=True)).protocol == "vllm-realtime"


def test_a_file_without_certificates_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(UsageError, match="holds no certificates"):
        tls_context(str(tmp_path / "empty.pem"), False)


def test_plain_addresses_have_no_certificate() -> None:
    assert tls_of("ws://h/", Access(ca_file="/no/such/file")) is None
