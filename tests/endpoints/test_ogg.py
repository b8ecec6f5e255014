from __future__ import annotations

import contextlib
import io
from itertools import pairwise

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from metrobench.endpoints import ogg, opus
from metrobench.errors import UsageError

RATE = 24_000
CHUNK = 480


def tone(chunks: int) -> np.ndarray:
    return (8000 * np.sin(np.arange(chunks * CHUNK) / 17)).astype("<i2")


def cut(pcm: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in pcm.reshape(-1, CHUNK)]


def pages_of(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = ogg.HEADER + data[26] + sum(data[ogg.HEADER : ogg.HEADER + data[26]])
        found.append(data[:size])
        data = data[size:]
    return found


def test_checksum_is_libogg_s() -> None:
    written = io.BytesIO()
    soundfile.write(written, tone(60), RATE, format="OGG", subtype="OPUS")
    pages = pages_of(written.getvalue())
    assert len(pages) > 3
    for page in pages:
        bare = page[:22] + bytes(4) + page[26:]
        assert ogg.checksum(bare) == int.from_bytes(page[22:26], "little")


@given(st.lists(st.binary(max_size=1200), max_size=5), st.integers(0, 2**32 - 1))
def test_what_is_put_into_pages_comes_out(contents: list[bytes], serial: int) -> None:
    data = b"".join(ogg.page(packet, serial, number, 960 * number) for number, packet in enumerate(contents))
    assert list(ogg.packets(data)) == contents


@given(st.binary(max_size=ogg.LARGEST), st.integers(0, 2**32 - 1), st.integers(0, 2**62))
def test_a_page_at_another_place_is_the_page_made_there(packet: bytes, sequence: int, position: int) -> None:
    assert ogg.renumber(ogg.page(packet, 1, 0, 0), 7, sequence, position) == ogg.page(packet, 7, sequence, position)


def test_a_packet_over_two_pages_counts_once() -> None:
    start = b"OggS" + bytes(22) + bytes((2, 255, 255)) + b"a" * 510
    rest = b"OggS\0" + bytes((ogg.CONTINUED,)) + bytes(20) + bytes((2, 10, 3)) + b"a" * 10 + b"new"
    assert list(ogg.packets(start + rest)) == [b"a" * 510, b"new"]


@pytest.mark.parametrize(
    "data", [b"Ogg", b"OggS", b"x" * 40, b"OggS" + bytes(22) + b"\x05\xff", ogg.page(b"abc", 1, 0, 0)[:-1]]
)
def test_what_is_no_whole_page_is_said(data: bytes) -> None:
    with pytest.raises(ogg.OggError):
        list(ogg.packets(data))


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: b"OggS" + tail))
def test_strange_bytes_are_packets_or_an_error_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(ogg.OggError):
        assert sum(map(len, ogg.packets(data))) <= len(data)


def test_every_chunk_is_one_packet_and_libsndfile_reads_them_back() -> None:
    pcm = tone(25)
    packets = opus.encode(cut(pcm), RATE)
    assert [opus.duration(packet) for packet in packets] == [0.02] * 25
    stream = ogg.page(opus.head(RATE), 5, 0, 0, ogg.FIRST) + ogg.page(opus.tags(), 5, 1, 0)
    for number, packet in enumerate(packets):
        place = ogg.renumber(ogg.page(packet, 0, 0, 0), 5, number + 2, (number + 1) * opus.CHUNK_POSITIONS)
        stream += place
    heard, rate = soundfile.read(io.BytesIO(stream), dtype="int16")
    assert len(heard) * RATE == len(pcm) * rate
    delay = round(0.0065 * RATE)
    again = heard[:: rate // RATE].astype(float)[delay + CHUNK :]
    sent = pcm.astype(float)[CHUNK : CHUNK + len(again)]
    assert np.corrcoef(again, sent)[0, 1] > 0.95


def test_packets_of_two_clips_follow_each_other_in_one_stream() -> None:
    packets = opus.encode(cut(tone(10)), RATE) + opus.encode(cut(tone(10) // 2), RATE) + opus.encode([bytes(960)], RATE)
    stream = ogg.page(opus.head(RATE), 5, 0, 0, ogg.FIRST) + ogg.page(opus.tags(), 5, 1, 0)
    stream += b"".join(
        ogg.page(packet, 5, number + 2, (number + 1) * opus.CHUNK_POSITIONS) for number, packet in enumerate(packets)
    )
    pages = pages_of(stream)
    sequences = [int.from_bytes(page[18:22], "little") for page in pages]
    assert all(after == before + 1 for before, after in pairwise(sequences))
    heard, rate = soundfile.read(io.BytesIO(stream))
    assert len(heard) == 21 * round(0.02 * rate)


@pytest.mark.parametrize(
    ("packet", "seconds"),
    [
        (b"", 0.0),
        (bytes([0 << 3]), 0.010),
        (bytes([3 << 3 | 0]), 0.060),
        (bytes([3 << 3 | 1]), 0.120),
        (bytes([3 << 3 | 3, 3]), 0.0),
        (bytes([13 << 3 | 2]), 0.040),
        (bytes([16 << 3 | 3, 48]), 0.120),
        (bytes([31 << 3 | 3]), 0.0),
        (bytes([31 << 3 | 0]), 0.020),
    ],
)
def test_length_of_a_packet_in_time(packet: bytes, seconds: float) -> None:
    assert opus.duration(packet) == pytest.approx(seconds)


def test_a_rate_that_opus_does_not_know_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="22050 Hz"):
        opus.encode([bytes(882)], 22_050)
