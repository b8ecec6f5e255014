from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.doctor import pacing
from metrobench.doctor.check import Status
from metrobench.doctor.pacing import FINE, TRUSTED, Step, check_pacing, judge_pacing, most_within, steps_up_to, stream
from metrobench.profiles import load_profile
from metrobench.worker.cores import layout

TIMING = load_profile("smoke").timing
PLAN = layout()


def step(sessions: int, lag: float | None, trouble: str = "") -> Step:
    return Step(sessions, lag_p50=lag, lag_p99=lag, answer_p50=lag, answer_p99=lag, trouble=trouble)


@pytest.mark.parametrize(
    ("most", "steps"),
    [
        (1, [1]),
        (50, [50]),
        (60, [50, 60]),
        (1000, [50, 200, 500, 1000]),
        (3000, [50, 200, 500, 1000, 2000, 3000]),
        (10_000, [50, 200, 500, 1000, 2000, 4000, 8000, 10_000]),
    ],
)
def test_the_numbers_of_sessions_that_are_tried(most: int, steps: list[int]):
    assert steps_up_to(most) == steps


@given(st.integers(1, 10_000))
def test_they_rise_and_end_at_the_most(most: int):
    steps = steps_up_to(most)
    assert steps[-1] == most and steps == sorted(set(steps))


def test_the_largest_number_on_time_is_what_the_machine_is_trusted_with():
    check = judge_pacing([step(50, 0.0002), step(200, 0.0009), step(500, 0.003), step(1000, 0.004)], 1000, 1.0)
    assert (check.status, check.figures["trusted"], check.figures["trusted_1ms"]) == (Status.OK, 1000, 200)


def test_a_number_that_failed_once_and_passed_once_counts_as_kept():
    steps = [step(50, 0.0002), step(200, 0.03), step(200, 0.0004)]
    assert (most_within(steps, TRUSTED), most_within(steps, FINE)) == (200, 200)


def test_what_lies_beyond_a_failure_is_not_trusted():
    assert most_within([step(50, 0.0002), step(200, 0.03), step(500, 0.0004)], TRUSTED) == 50


def test_a_machine_that_fails_at_once_cannot_measure():
    check = judge_pacing([step(50, 0.02), step(50, 0.03)], 1000, 1.0)
    assert (check.status, check.figures["trusted"]) == (Status.FAIL, 0)
    assert "not even 50" in check.finding


def test_a_weak_client_is_a_warning():
    assert judge_pacing([step(50, 0.0002), step(200, 0.02), step(200, 0.02)], 1000, 1.0).status is Status.WARN


def test_few_sessions_asked_for_and_kept_are_fine():
    assert judge_pacing([step(20, 0.0002)], 20, 1.0).status is Status.OK


def test_why_a_step_measured_nothing_is_said():
    check = judge_pacing([step(50, 0.0002), step(200, None, "2000 open files")], 200, 1.0)
    assert "at 200: 2000 open files" in check.finding


def test_stopped_before_anything_was_seen_is_no_failure():
    assert judge_pacing([], 1000, 1.0, interrupted=True).status is Status.SKIPPED


@given(st.lists(st.tuples(st.sampled_from([50, 200, 500]), st.none() | st.floats(0.0, 10.0)), max_size=6))
def test_whatever_was_seen_1_ms_is_never_promised_to_more_than_5_ms(seen: list[tuple[int, float | None]]):
    steps = [step(sessions, lag) for sessions, lag in seen]
    check = judge_pacing(steps, 500, 0.08)
    assert check.figures.get("trusted_1ms", 0) <= check.figures.get("trusted", 0)
    assert "nan" not in check.finding


def scripted(monkeypatch: pytest.MonkeyPatch, lags: dict[int, list[float]]) -> list[int]:
    made: list[int] = []

    def stream(sessions: int, *_: object) -> Step:
        made.append(sessions)
        return step(sessions, lags[sessions].pop(0))

    monkeypatch.setattr(pacing, "stream", stream)
    return made


def test_the_test_stops_at_the_first_number_that_fails_twice(monkeypatch: pytest.MonkeyPatch):
    made = scripted(monkeypatch, {50: [0.0001], 200: [0.02, 0.02], 500: [0.0001]})
    [check] = check_pacing(PLAN, TIMING, 500, Event(), lambda _: None)
    assert made == [50, 200, 200]
    assert check.figures["trusted"] == 50


def test_one_bad_moment_is_given_a_second_try(monkeypatch: pytest.MonkeyPatch):
    made = scripted(monkeypatch, {50: [0.02, 0.0001], 100: [0.0001]})
    [check] = check_pacing(PLAN, TIMING, 100, Event(), lambda _: None)
    assert made == [50, 50, 100]
    assert check.figures["trusted"] == 100


def test_told_to_stop_it_makes_no_further_step(monkeypatch: pytest.MonkeyPatch):
    made = scripted(monkeypatch, {})
    stop = Event()
    stop.set()
    [check] = check_pacing(PLAN, TIMING, 100, stop, lambda _: None)
    assert (made, check.status) == ([], Status.SKIPPED)


def test_the_real_load_process_is_measured_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(pacing, "SECONDS", 1.0)
    monkeypatch.setattr(pacing, "STEP_LIMIT", 60.0)
    seen = stream(5, PLAN, TIMING, Event())
    assert seen.trouble == ""
    assert seen.lag_p99 is not None and seen.answer_p99 is not None
    assert list(tmp_path.iterdir()) == []


def test_more_sessions_than_open_files_is_said(monkeypatch: pytest.MonkeyPatch):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert "open files" in stream(500, PLAN, TIMING, Event()).trouble
