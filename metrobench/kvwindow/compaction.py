"""Block-table compaction in NumPy: from a batch's positions and block tables to the batch the kernel sees.

A row is a run of queries of one request inside one multiple of G. Its compact block table is the sink blocks followed
by the blocks from the window's start on, and its compact length is its absolute length less the tokens left out. A
causal kernel with bottom-right alignment then sees exactly V(t): the map k -> k (sinks), k -> k - shift (window) is
monotone and onto, keys carry their rotary position already, and attention does not depend on the order of the keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from metrobench.kvwindow.mask import Window

Ints = NDArray[np.int32]


class Rows(NamedTuple):
    """V rows of a batch. int32 arrays."""

    request: Ints
    """[V] which request a row belongs to."""
    query_start: Ints
    """[V + 1] first query of each row in the batch's query tensor."""
    first: Ints
    """[V] absolute position of the row's first query."""
    end: Ints
    """[V] absolute position after the row's last query."""


def _cut(query_start: Ints, ends: Ints, align: int) -> tuple[Ints, Ints, Ints]:
    """[R] each: first position, its multiple of `align`, rows; a request without queries (padding) stays one row."""
    first = ends - (query_start[1:] - query_start[:-1])
    group = first // align
    return first, group, np.maximum((ends - 1) // align - group + 1, 1)


def count_rows(query_start: Ints, ends: Ints, align: int) -> int:
    """Rows that `split` makes of a batch."""
    if len(ends) > 24:
        return int(np.add.reduce(_cut(query_start, ends, align)[2]))
    starts, count = query_start.tolist(), len(ends)  # for few requests a loop costs less than NumPy's calls
    for start, stop, end in zip(starts, starts[1:], ends.tolist(), strict=False):
        if stop > start:
            count += (end - 1) // align - (end - stop + start) // align
    return count


def split(query_start: Ints, ends: Ints, align: int) -> Rows:
    """Cut the queries of R requests at absolute multiples of `align`.

    query_start: [R + 1] first query of each request. ends: [R] absolute length of each request, its queries included.
    """
    first, group, counts = _cut(query_start, ends, align)
    total = int(counts.sum(dtype=np.int32))
    numbers = np.arange(total, dtype=np.int32)
    if total == len(counts):
        return Rows(numbers, query_start, first, ends)
    request = np.repeat(numbers[: len(counts)], counts)
    before = counts.cumsum(dtype=np.int32) - counts
    low = ((group - before).take(request) + numbers) * align
    high = np.minimum(ends.take(request), low + align)
    np.maximum(low, first.take(request), out=low)
    starts = np.empty(total + 1, np.int32)
    np.add(low, (query_start[:-1] - first).take(request), out=starts[:-1])
    starts[-1] = query_start[-1]
    return Rows(request, starts, low, high)


def left_out(window: Window, first: Ints, block: int) -> Ints:
    """[V] blocks left out between the sinks and the window, of rows whose first query is at `first`."""
    omitted: Ints = np.maximum(window.start(first) // block - window.sink_blocks(block), 0)
    return omitted


class Compactor:
    """Writes compact lengths and block tables into buffers allocated once."""

    def __init__(self, window: Window, block: int, rows: int) -> None:
        """`rows`: the most rows a batch can have."""
        self.window, self.block = window, block
        self.lengths = np.zeros(rows, np.int32)
        self.table = np.zeros((rows, window.columns(block)), np.int32)
        self._index = np.zeros(self.table.shape, np.int64)
        self._columns = np.arange(self.table.shape[1], dtype=np.int64)

    def __call__(self, rows: Rows, table: Ints) -> tuple[Ints, Ints]:
        """Compact lengths [V] and block table [V, columns]; views of the buffers, valid until the next call.

        table: [R, any] block ids of each request. Columns past a row's length hold ids that no kernel reads.
        """
        count, width, sinks = len(rows.request), table.shape[1], self.window.sink_blocks(self.block)
        omitted = left_out(self.window, rows.first, self.block)
        lengths, compact, index = self.lengths[:count], self.table[:count], self._index[:count]
        np.subtract(rows.end, omitted * self.block, out=lengths)
        base = rows.request * np.int64(width)
        np.add(base[:, None], self._columns[:sinks], out=index[:, :sinks])
        np.add((base + omitted)[:, None], self._columns[sinks:], out=index[:, sinks:])
        table.reshape(-1).take(index, out=compact, mode="clip")
        return lengths, compact
