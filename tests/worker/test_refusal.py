"""The benchmark of refusals through the openai package finds what a scripted door does."""

import asyncio

import pytest

from tests.worker.rooms import room

pytest.importorskip("openai")

from benchmarks import refusal
from benchmarks.churn_kill import REFUSAL, answered


def knock() -> tuple[list[refusal.Try], bool]:
    async def play() -> tuple[list[refusal.Try], bool]:
        async with room(1) as place, answered(place.url):
            return await refusal.measure(place.url, 1, 3)

    return asyncio.run(asyncio.wait_for(play(), 60))


def test_every_refusal_has_an_error_with_a_code_before_a_close_code():
    found, full = knock()
    assert full and len(found) == 3
    for one in found:
        assert (one.code, one.close_code) == ("session_limit", 1013)
        assert one.error is not None and 0.0 < one.error <= one.closed


def test_who_is_let_in_was_not_refused(monkeypatch):
    monkeypatch.setattr(refusal, "HANG", 0.5)

    async def play() -> None:
        async with room(1) as place:
            await refusal.measure(place.url, 1, 1)

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(play(), 60))


CLEAN = refusal.Try(0.002, "session_limit", 0.004, 1013)


@pytest.mark.parametrize(
    "wrong",
    [
        refusal.Try(None, None, 0.004, 1013),
        refusal.Try(0.002, "session_limit", REFUSAL + 0.001, 1013),
        refusal.Try(0.002, "session_limit", 0.004, None),
    ],
)
def test_one_that_is_late_or_without_a_word_is_not_clean(wrong: refusal.Try):
    assert refusal.conclude([CLEAN] * 3)["clean"]
    assert not refusal.conclude([CLEAN, wrong, CLEAN])["clean"]
    assert not refusal.conclude([])["clean"]


def test_the_figures_are_median_p99_and_largest():
    found = refusal.conclude([refusal.Try(n / 1e3, "session_limit", n / 500, 1013) for n in range(1, 42)])
    assert found["error_ms"] == [21.0, 40.6, 41.0]
    assert found["closed_ms"] == [42.0, 81.2, 82.0]
    assert (found["codes"], found["close_codes"], found["refusals"]) == (["session_limit"], [1013], 41)
