"""PCM as 32-bit floats in base64, in pieces of one chunk that all sessions share.

Base64 takes three bytes at a time, and a chunk's bytes are seldom a multiple of that. Each cut is therefore moved on to
the next multiple, over bytes that are zero in every chunk: the lowest byte of a 16-bit value as a float always is, and
where two bytes are needed the chunk's first sample is rounded to bfloat16, one sample in 60 ms at 16 kHz.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pybase64

WIDTH = 4
"""Bytes of a sample."""
_TRIPLE = 3
_FULL_SCALE = 32768.0
_HALF, _KEPT = np.uint32(0x8000), np.uint32(0xFFFF0000)

Form = tuple[int, int, bool]
"""Bytes of a chunk that the piece before it has sent, zero bytes of the chunk after it, and whether it is the last."""


def _form(place: int, size: int, group: int) -> Form:
    last = place == group - 1
    return -place * size % _TRIPLE, 0 if last else -(place + 1) * size % _TRIPLE, last


@cache
def _forms(size: int, group: int) -> tuple[Form, ...]:
    """The different ones, in the order of their first places."""
    return tuple(dict.fromkeys(_form(place, size, group) for place in range(group)))


def encode(pcm: bytes, group: int, end: bytes) -> bytes:
    """The pieces of a chunk of PCM16 in a message of `group` chunks, one for each form; `end` stands after the last
    chunk's."""
    samples = np.frombuffer(pcm, dtype="<i2").astype("<f4") / np.float32(_FULL_SCALE)
    exact = samples.tobytes()
    words = samples.view(np.uint32)
    words[:1] = (words[:1] + _HALF) & _KEPT
    rounded = samples.tobytes()
    made = []
    for skip, more, last in _forms(len(exact), group):
        data = rounded if skip == _TRIPLE - 1 else exact
        made.append(pybase64.b64encode(data[skip:] + bytes(more)) + (end if last else b""))
    return b"".join(made)


def pieces(samples: int, group: int, end: int) -> tuple[tuple[int, int], ...]:
    """By place in the message: start and end of a chunk's piece in what `encode` gives; `end` bytes stand after the
    last."""
    size = samples * WIDTH
    spans, start = {}, 0
    for form in _forms(size, group):
        skip, more, last = form
        length = -(-(size - skip + more) // _TRIPLE) * 4 + (end if last else 0)
        spans[form] = (start, start + length)
        start += length
    return tuple(spans[_form(place, size, group)] for place in range(group))
