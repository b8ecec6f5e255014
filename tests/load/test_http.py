"""Responses out of the bytes of a connection: however they are cut, and whatever comes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.load.http import MAX_BODY, MAX_HEAD, HttpError, Responses

BODIES = st.lists(st.tuples(st.sampled_from([200, 400, 503]), st.binary(max_size=60), st.booleans()), max_size=6)


def response(status: int, body: bytes, chunked: bool) -> bytes:
    head = b"HTTP/1.1 %d Some Words\r\nServer: x\r\n" % status
    if not chunked:
        return head + b"Content-LENGTH:  %d \r\n\r\n%b" % (len(body), body)
    parts = [body[start : start + 7] for start in range(0, len(body), 7)]
    chunks = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts)
    return head + b"transfer-encoding: Chunked\r\n\r\n" + chunks + b"0\r\nTrailer: y\r\n\r\n"


@given(said=BODIES, cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_responses_are_whole_however_their_bytes_are_cut(said: list[tuple[int, bytes, bool]], cuts: list[int]) -> None:
    wire = b"HTTP/1.1 100 Continue\r\n\r\n" + b"".join(response(*each) for each in said)
    reader, heard = Responses(), []
    edges = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    for start, end in itertools.pairwise(edges):
        heard += reader.feed(wire[start:end])
    assert heard == [b"%d %b" % (status, body) for status, body, _ in said]


@given(st.lists(st.binary(max_size=80), max_size=6))
def test_any_bytes_are_responses_or_none(parts: list[bytes]) -> None:
    reader = Responses()
    try:
        for part in [b"HTTP/1.1 200 OK\r\n", *parts]:
            reader.feed(part)
    except HttpError:
        pass


def test_a_response_without_a_body_is_one() -> None:
    assert Responses().feed(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n") == [
        b"204 ",
        b"200 ",
    ]


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (MAX_BODY + 1),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"0" * (MAX_HEAD + 1),
        b"x" * (MAX_HEAD + 1),
    ],
)
def test_what_is_no_response_or_has_no_end_is_an_error(wire: bytes) -> None:
    with pytest.raises(HttpError):
        Responses().feed(wire)
