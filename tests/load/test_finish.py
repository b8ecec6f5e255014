from __future__ import annotations

from metrobench.endpoints.base import EndpointBase
from metrobench.load.finish import chunk_frame, finisher

URL = "ws://h/"


def messages(wire: bytes) -> list[tuple[int, bytes]]:
    """(opcode, payload) of a client's whole messages, their fragments joined."""
    found: list[tuple[int, bytes]] = []
    opcode, parts = 0, b""
    while wire:
        first, size, head = wire[0], wire[1] & 127, 2
        if size == 126:
            size, head = int.from_bytes(wire[2:4], "big"), 4
        key, masked = wire[head : head + 4], wire[head + 4 : head + 4 + size]
        assert wire[1] & 128
        assert (first & 15 == 0) == bool(opcode)
        opcode = opcode or first & 15
        parts += bytes(byte ^ key[place % 4] for place, byte in enumerate(masked))
        wire = wire[head + 4 + size :]
        if first & 128:
            found.append((opcode, parts))
            opcode, parts = 0, b""
    assert not opcode
    return found


def sent(endpoint: EndpointBase, chunks: list[bytes]) -> list[tuple[int, bytes]]:
    finish = finisher(endpoint)
    frames = [chunk_frame(chunk, endpoint) for chunk in chunks]
    return messages(b"".join(frame if finish is None else finish(frame, n, 0) for n, frame in enumerate(frames)))


def make(**features: object) -> EndpointBase:
    kind = type("Some", (EndpointBase,), {"binary": True, **features})
    made: EndpointBase = kind(URL, unit=0.08, first_ready=0.08)
    return made


def test_plain_chunks_are_shared_whole() -> None:
    assert finisher(make()) is None
    assert sent(make(), [b"a" * 10, b"b" * 300]) == [(2, b"a" * 10), (2, b"b" * 300)]
    assert sent(make(binary=False), [b"a"]) == [(1, b"a")]


def test_a_chunk_that_sends_nothing_stays_empty() -> None:
    assert chunk_frame(b"", make()) == b""


def test_grouped_chunks_are_fragments_of_one_message() -> None:
    endpoint = make(group=3, group_head=lambda self: b"HEAD")
    assert sent(endpoint, [b"a", b"b", b"c" * 200, b"d", b"e", b"f"]) == [
        (2, b"HEADab" + b"c" * 200),
        (2, b"HEADdef"),
    ]


def test_a_message_that_goes_out_at_once_waits_for_its_last_chunk() -> None:
    endpoint = make(group=3, at_once=True, numbered=True, group_head=lambda self: b"(", tail=lambda self, n: b"%d)" % n)
    finish = finisher(endpoint)
    assert finish is not None
    kept = [chunk_frame(bytes([letter]) * 9, endpoint) for letter in b"abc"]
    out = [[finish(kept[number % 3], number, session) for session in range(2)] for number in range(6)]
    assert [[bool(part) for part in row] for row in out] == [[False] * 2, [False] * 2, [True] * 2] * 2
    assert messages(out[2][1] + out[5][1]) == [(2, b"(" + b"a" * 9 + b"b" * 9 + b"c" * 9 + b"%d)" % n) for n in (0, 1)]


def test_a_chunk_s_form_follows_from_its_place() -> None:
    endpoint = make(group=3, pieces=((0, 2), (2, 5), (0, 2)))
    assert sent(endpoint, [b"aaAAA", b"bbBBB", b"ccCCC"]) == [(2, b"aa" + b"BBB" + b"cc")]


def test_numbered_chunks_end_with_their_number() -> None:
    endpoint = make(numbered=True, tail=lambda self, number: b"#%d" % number)
    assert sent(endpoint, [b"a", b"a"]) == [(2, b"a#0"), (2, b"a#1")]


def test_personal_chunks_are_made_for_their_place() -> None:
    endpoint = make(personal=True, personalise=lambda self, message, number: message * number)
    assert sent(endpoint, [b"a", b"b", b"c"]) == [(2, b""), (2, b"b"), (2, b"cc")]
