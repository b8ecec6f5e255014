"""Ogg pages (RFC 3533): one packet a page outwards, any pages inwards. Pure."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

CAPTURE = b"OggS"
HEADER = 27
"""Bytes of a page before its table of segment lengths."""
SEGMENT = 255
"""Largest length in that table; a packet goes on until a shorter one."""
LARGEST = SEGMENT * SEGMENT - 1
"""Bytes of the largest packet that ends in the page it begins in."""
FIRST, CONTINUED = 2, 1
"""Flags: first page of a stream; it begins with the rest of a packet."""

_page = struct.Struct("<4sBBqIIIB")
_fields = struct.Struct("<qIII")
_FIELDS = 6  # place of the position in a page; serial, sequence and checksum follow it
_CHECKSUM = 22
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class OggError(ValueError):
    """Bytes that are no Ogg pages."""


def checksum(page: bytes | bytearray) -> int:
    """The CRC of a page whose checksum field is zero (polynomial 0x04c11db7, no inversion, highest bit first): zlib's
    with the bits of every byte, and of the sum, the other way round."""
    mirrored = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_REVERSED), "big")


def page(packet: bytes, serial: int, sequence: int, position: int, flags: int = 0) -> bytes:
    """A page with one whole packet of at most LARGEST bytes. `position`: samples up to its end, as the codec counts."""
    whole, rest = divmod(len(packet), SEGMENT)
    table = bytes([SEGMENT] * whole + [rest])
    made = bytearray(_page.pack(CAPTURE, 0, flags, position, serial, sequence, 0, len(table)) + table + packet)
    made[_CHECKSUM : _CHECKSUM + 4] = checksum(made).to_bytes(4, "little")
    return bytes(made)


def renumber(page: bytes, serial: int, sequence: int, position: int) -> bytes:
    """The same page at another place of a stream."""
    made = bytearray(page)
    _fields.pack_into(made, _FIELDS, position, serial, sequence, 0)
    made[_CHECKSUM : _CHECKSUM + 4] = checksum(made).to_bytes(4, "little")
    return bytes(made)


def packets(data: bytes) -> Iterator[bytes]:
    """The packets of whole pages, in order, each as far as its page has it; the rest of a packet that began in an
    earlier page is left out. Checksums are not looked at: TCP has its own. Raises OggError."""
    place = 0
    while place < len(data):
        if data[place : place + 4] != CAPTURE:
            raise OggError(f"no Ogg page at byte {place} of {len(data)}")
        head = data[place : place + HEADER]
        if len(head) < HEADER:
            raise OggError("an Ogg page ends in its header")
        table = data[place + HEADER : place + HEADER + head[26]]
        start = place + HEADER + head[26]
        place = start + sum(table)
        if place > len(data) or len(table) < head[26]:
            raise OggError("an Ogg page ends before its packets do")
        skip = bool(head[5] & CONTINUED)
        end = start
        for length in table:
            end += length
            if length < SEGMENT:
                if not skip:
                    yield data[start:end]
                skip, start = False, end
        if end > start and not skip:
            yield data[start:end]
