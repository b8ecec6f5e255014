"""Attention over compacted block tables equals attention under the mask, with every freed block NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metrobench.kvwindow import Window
from metrobench.kvwindow.compaction import Compactor, count_rows, split

from .test_mask import windows

HEAD = 8


def attend(query: Any, key: Any, value: Any, visible: Any) -> Any:
    """Softmax attention of one head; [n, HEAD], [k, HEAD], [k, HEAD], [n, k]."""
    score = np.where(visible, query @ key.T / HEAD**0.5, -np.inf)
    weight = np.exp(score - score.max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True) @ value


class Cache:
    """Paged KV of several requests; a freed block is NaN and soon somebody else's."""

    def __init__(self, window: Window, block: int, requests: int, in_flight: int) -> None:
        self.window, self.block = window, block
        self.cap = window.resident_blocks(in_flight, block)
        self.data = np.full((requests * self.cap + 1, block, 2, HEAD), np.nan)
        self.free = list(range(1, len(self.data)))
        self.tables: list[list[int]] = [[] for _ in range(requests)]

    def schedule(self, request: int, computed: int, new: int) -> None:
        """Free what is dead, then hold room for `new` tokens."""
        table = self.tables[request]
        low, high = self.window.dead_blocks(computed, self.block)
        for index in range(low, min(high, len(table))):
            if table[index]:
                self.data[table[index]] = np.nan
                self.free.append(table[index])
                table[index] = 0
        while len(table) * self.block < computed + new:
            table.append(self.free.pop(0))
        assert sum(map(bool, table)) <= self.cap

    def write(self, request: int, position: int, pair: Any) -> None:
        self.data[self.tables[request][position // self.block], position % self.block] = pair


def kernel(query: Any, cache: Cache, table: Any, length: int, window: Window) -> Any:
    """A causal paged kernel: reads `length` tokens of the table; in exact mode masks in compact coordinates."""
    block = cache.block
    pairs = cache.data[table[: -(-length // block)]].reshape(-1, 2, HEAD)[:length]
    position = length - len(query) + np.arange(len(query))[:, None]
    key = np.arange(length)[None]
    visible = key <= position
    if window.exact:
        visible &= (key < window.sinks) | (position - key < window.window)
    out = attend(query, np.nan_to_num(pairs[:, 0]), np.nan_to_num(pairs[:, 1]), visible)
    assert not np.isnan(pairs[visible.any(0)]).any(), "a visible key was freed or never written"
    return out


@settings(max_examples=250)
@given(windows(), st.integers(1, 4), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_compaction_is_the_mask(shape: tuple[Window, int], requests: int, longest: int, seed: int) -> None:
    window, block = shape
    random = np.random.default_rng(seed)
    cache = Cache(window, block, requests, longest)
    compact = Compactor(window, block, 2 * requests + requests * longest // window.align)
    history: list[Any] = [np.empty((0, 2, HEAD)) for _ in range(requests)]
    for _ in range(8):
        new = np.where(random.random(requests) < 0.5, 1, random.integers(1, longest + 1, requests))
        for request in range(requests):
            past = len(history[request])
            cache.schedule(request, past, new[request])
            history[request] = np.concatenate([history[request], random.normal(size=(new[request], 2, HEAD))])
            for position in range(past, past + new[request]):
                cache.write(request, position, history[request][position])
        ends = np.array([len(h) for h in history], np.int32)
        starts = np.concatenate([[0], new.cumsum()]).astype(np.int32)
        table = np.zeros((requests, max(map(len, cache.tables))), np.int32)
        for request in range(requests):
            table[request, : len(cache.tables[request])] = cache.tables[request]
        rows = split(starts, ends, window.align)
        assert len(rows.request) == count_rows(starts, ends, window.align)
        lengths, tables = compact(rows, table)
        assert lengths.max() <= window.columns(block) * block
        query = random.normal(size=(starts[-1], HEAD))
        for row, request in enumerate(rows.request):
            low, high = rows.query_start[row : row + 2]
            got = kernel(query[low:high], cache, tables[row], int(lengths[row]), window)
            position = np.arange(rows.first[row], rows.end[row])[:, None]
            visible = window.visible(position, np.arange(ends[request])[None])
            expected = attend(query[low:high], history[request][:, 0], history[request][:, 1], visible)
            np.testing.assert_allclose(got, expected, atol=1e-9)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90)), min_size=1, max_size=12), st.integers(1, 40))
def test_split_covers_every_query_once_and_crosses_no_multiple(batch: list[tuple[int, int]], align: int) -> None:
    past, new = (np.array(column, np.int32) for column in zip(*batch, strict=True))
    starts = np.concatenate([[0], new.cumsum()]).astype(np.int32)
    rows = split(starts, past + new, align)
    lengths = rows.end - rows.first
    assert (np.diff(rows.query_start) == lengths).all()
    assert rows.query_start[0] == 0
    assert rows.query_start[-1] == starts[-1]
    for request in range(len(batch)):
        mine = rows.request == request
        covered = [p for first, end in zip(rows.first[mine], rows.end[mine], strict=True) for p in range(first, end)]
        assert covered == list(range(past[request], past[request] + new[request]))
    full = lengths > 0
    assert (rows.first[full] // align == (rows.end[full] - 1) // align).all()
    empty = int((new == 0).sum())
    assert (lengths == 0).sum() == empty, "a request without queries keeps exactly one row"
    assert all(array.dtype == np.int32 for array in rows)
