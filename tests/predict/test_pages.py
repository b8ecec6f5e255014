"""Pages of vLLM and SGLang, written after their documented names: what each says of the pool."""

from pathlib import Path

import pytest

from metrobench.errors import UsageError
from metrobench.predict.model import Pool
from metrobench.predict.pages import Reading, read_page

PAGES = Path(__file__).parent / "pages"


def page(name: str) -> str:
    return (PAGES / f"{name}.txt").read_text()


def only(name: str) -> Reading:
    [reading] = read_page(page(name)).values()
    return reading


def test_vllm_shows_its_pool_and_the_sessions_that_hold_blocks() -> None:
    reading = only("vllm")
    assert reading.used == 0.431
    assert reading.pool == Pool(2501, 16)
    assert reading.sessions == 3 + 13  # two more wait for capacity and hold nothing
    assert reading.moved == 39_120 + 5_012
    assert reading.started == 1.79604e9


def test_an_old_vllm_has_the_gauge_under_its_old_name() -> None:
    reading = only("vllm-old")
    assert (reading.used, reading.pool, reading.sessions) == (0.25, Pool(11_520, 16), 5 + 2 + 1)
    assert reading.moved is None


def test_each_engine_of_a_page_is_read_by_itself() -> None:
    readings = read_page(page("vllm-two-engines"))
    assert sorted(reading.used for reading in readings.values()) == [0.2, 0.6]
    assert [reading.pool for reading in readings.values()] == [Pool(1001, 16)] * 2


def test_blocks_of_several_kinds_of_layers_are_no_tokens() -> None:
    reading = only("vllm-hybrid")
    assert reading.pool is None
    assert reading.sessions == 5


def test_sglang_shows_its_pool_in_tokens_and_its_streaming_sessions() -> None:
    reading = only("sglang")
    assert reading.used == pytest.approx(123_859 / 442_354)
    assert reading.pool == Pool(442_355, 1)
    assert reading.sessions == 32
    assert reading.moved == 130_000


def test_an_old_sglang_shows_a_fraction_alone() -> None:
    reading = only("sglang-old")
    assert (reading.used, reading.pool, reading.sessions) == (0.28, None, 162)


def test_the_fullest_of_sglangs_pools_counts() -> None:
    reading = only("sglang-windows")
    assert (reading.used, reading.pool) == (0.71, None)


def test_names_with_an_underscore_for_the_colon_are_the_same() -> None:
    reading = only("vllm")
    [renamed] = read_page(page("vllm").replace("vllm:", "vllm_")).values()
    assert renamed == reading


@pytest.mark.parametrize("name", ["node"])
def test_a_page_without_the_gauges_is_refused_and_says_which_are_missing(name: str) -> None:
    with pytest.raises(UsageError, match="no gauge of a KV pool"):
        read_page(page(name))


@pytest.mark.parametrize(
    "text", ["<!doctype html><html>", "vllm:kv_cache_usage_perc{engine=} nothing", "{}", 'a{b="c" 1', "x y z"]
)
def test_what_is_no_page_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"no page of Prometheus metrics|no gauge"):
        read_page(text)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "43.1"])
def test_a_gauge_that_is_no_fraction_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="no gauge"):
        read_page(f'vllm:kv_cache_usage_perc{{engine="0"}} {value}\n')
