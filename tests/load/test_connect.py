from __future__ import annotations

import errno
import socket
import ssl

import pytest

from metrobench.load.connect import explain


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "no WebSocket handshake within 10 s"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "closed the connection"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "host name cannot be resolved"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "TLS failed"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "Network is unreachable"),
        (OSError("Multiple exceptions: [Errno 111] ::1, [Errno 111] 127.0.0.1"), "connection refused"),
        (ValueError("odd"), "ValueError: odd"),
    ],
)
def test_reasons_are_sentences(error: Exception, words: str) -> None:
    assert words in explain(error, 10.0)


def test_certificate_that_is_not_valid() -> None:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = "self-signed certificate"
    assert explain(error, 10.0) == "TLS: the certificate is not valid (self-signed certificate)"
