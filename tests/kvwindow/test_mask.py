"""The mask's arithmetic over random shapes: what is seen, what may be freed, what is held at most."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metrobench.kvwindow import Window

BLOCKS = st.sampled_from([1, 2, 4, 16])


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, int]:
    """A window on some block size."""
    block = draw(BLOCKS)
    if draw(st.booleans()):
        return Window(draw(st.integers(1, 60)), draw(st.integers(0, 40)), draw(st.integers(1, 4)) * block, True), block
    window, sinks, align = (draw(st.integers(low, 6)) * block for low in (1, 0, 1))
    return Window(window, sinks, align), block


@settings(max_examples=300)
@given(windows(), st.integers(0, 400))
def test_a_query_sees_sinks_and_window_and_nothing_later(shape: tuple[Window, int], query: int) -> None:
    window, _ = shape
    keys = np.arange(query + 50)
    seen = window.visible(query, keys)
    assert not seen[query + 1 :].any()
    assert seen[: min(window.sinks, query + 1)].all()
    assert seen[max(0, query - window.window + 1) : query + 1].all()
    longest = window.window if window.exact else window.window + window.align
    assert seen.sum() <= window.sinks + longest
    if window.exact:
        assert seen.sum() == min(query + 1, window.sinks + window.window) or query - window.window < window.sinks


@settings(max_examples=300)
@given(windows(), st.integers(0, 300))
def test_freed_blocks_are_never_seen_again_and_no_later_block_is_kept_for_nothing(
    shape: tuple[Window, int], computed: int
) -> None:
    window, block = shape
    low, high = window.dead_blocks(computed, block)
    later = 2 * (window.window + window.align + window.sinks + block)
    queries = np.arange(computed, computed + later)[:, None]
    dead = np.arange(low * block, high * block)
    assert not window.visible(queries, dead[None]).any()
    first_kept = np.arange(high * block, (high + 1) * block)[None]
    assert window.visible(queries, first_kept).any()


@settings(max_examples=300)
@given(windows(), st.lists(st.integers(1, 70), min_size=1, max_size=25))
def test_a_request_never_holds_more_than_the_cap(shape: tuple[Window, int], chunks: list[int]) -> None:
    window, block = shape
    cap = window.resident_blocks(max(chunks), block)
    computed, dead = 0, 0
    for chunk in chunks * 3:
        low, high = window.dead_blocks(computed, block)
        dead = max(dead, high - low)
        held = -(-(computed + chunk) // block) - dead
        assert held <= cap
        computed += chunk


@settings(max_examples=200)
@given(windows())
def test_the_cap_is_reached(shape: tuple[Window, int]) -> None:
    window, block = shape
    in_flight = 7
    held = []
    for computed in range(4 * (window.window + window.align + window.sinks)):
        low, high = window.dead_blocks(computed, block)
        held.append(-(-(computed + in_flight) // block) - (high - low))
    slack = 1 if window.exact else 0
    assert window.resident_blocks(in_flight, block) - slack <= max(held) <= window.resident_blocks(in_flight, block)


@settings(max_examples=300, deadline=None)
@given(windows(), st.integers(1, 300))
def test_a_window_longer_than_the_context_is_cut_to_it_and_masks_the_same(
    shape: tuple[Window, int], length: int
) -> None:
    window, block = shape
    cut = window.within(length, block)
    position = np.arange(length)
    assert (cut.visible(position[:, None], position) == window.visible(position[:, None], position)).all()
    assert cut.columns(block) <= 3 * (-(-length // block) + 1)
