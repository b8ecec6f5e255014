from __future__ import annotations

import pytest
from websockets.frames import OP_TEXT, Frame
from websockets.streams import StreamReader

from metrobench.load.wire import client_frame


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 1000, 65_535, 65_536, 100_000])
def test_frame_is_read_by_another_implementation(size: int) -> None:
    message = bytes(97 + n % 26 for n in range(size))
    reader = StreamReader()
    reader.feed_data(client_frame(message))
    parser = Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as stop:
        while True:
            next(parser)
    frame: Frame = stop.value.value
    assert (frame.opcode, frame.fin, bytes(frame.data)) == (OP_TEXT, True, message)
    assert not reader.buffer


def test_masks_differ() -> None:
    assert len({client_frame(b"the same message") for _ in range(8)}) > 1
