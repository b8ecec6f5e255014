"""Samples as they come: engines apart, a start again forgets what was before."""

from dataclasses import replace

import pytest

from metrobench.errors import NotValidError
from metrobench.predict.model import Pool
from metrobench.predict.pages import Reading
from metrobench.predict.watch import MOST_KEPT, Engine, Watched

START = Reading(used=0.1, sessions=8.0, pool=Pool(1001, 16), moved=0.0, started=100.0)


def at(t: float, slope: float = 0.004, **change: float) -> Reading:
    return replace(START, used=0.1 + slope * t, moved=100.0 * t, **change)


def filled(looks: int, slope: float = 0.004) -> Engine:
    engine = Engine()
    for look in range(looks):
        engine.take(5.0 * look, at(5.0 * look, slope))
    return engine


def test_samples_that_grow_bear_a_forecast() -> None:
    assert filled(20).fit().time == pytest.approx(225.0, rel=0.02)


def test_the_engine_that_is_full_first_is_named() -> None:
    watched = Watched()
    for look in range(20):
        t = 5.0 * look
        watched.take(t, {"slow": at(t, 0.002), "fast": at(t, 0.006), "new": START})
    name, _, fit = watched.first()
    assert name == "fast"
    assert fit.time == pytest.approx(150.0, rel=0.02)


def test_a_process_that_started_again_is_watched_from_there() -> None:
    engine = filled(20)
    engine.take(100.0, replace(START, started=5000.0))
    assert len(engine.times) == 1
    with pytest.raises(NotValidError, match="the server started again; too few samples"):
        engine.fit()


def test_counters_that_begin_anew_mean_a_start_again() -> None:
    engine = filled(20)
    engine.take(100.0, replace(START, moved=3.0))
    assert engine.restarted == 100.0


def test_an_engine_that_is_gone_from_the_page_is_forgotten() -> None:
    watched = Watched()
    watched.take(0.0, {"0": START, "1": START})
    watched.take(5.0, {"0": START})
    assert list(watched.engines) == ["0"]


def test_no_engine_with_enough_samples_is_refused_with_the_reason() -> None:
    watched = Watched()
    watched.take(0.0, {"0": START})
    with pytest.raises(NotValidError, match="too few samples"):
        watched.first()


def test_a_long_watch_keeps_a_bounded_number_of_samples_in_order() -> None:
    engine = filled(MOST_KEPT + 100, slope=1e-6)
    assert len(engine.times) <= MOST_KEPT
    assert engine.times == sorted(engine.times)
