from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrobench.load.count import OnlineCount
from metrobench.measure.facts import FRAME_DTYPE, FrameFlag

B = 1.0
NO_STALLS = np.empty((0, 2))


def table(frames: int, sessions: int) -> npt.NDArray[np.void]:
    rows = np.zeros((frames, sessions), dtype=FRAME_DTYPE)
    rows["t_ready"] = 1.0 + np.arange(frames)[:, None] + 0.1 * np.arange(sessions)
    rows["t_sent"] = rows["t_ready"]
    rows["t_done"] = np.nan
    return rows


def living(sessions: int) -> npt.NDArray[np.bool_]:
    return np.zeros(sessions, dtype=bool)


def counts(count: OnlineCount) -> tuple[int, int, int]:
    return count.met, count.missed, count.ambiguous


def test_answers_in_time_are_met_once() -> None:
    rows = table(3, 2)
    rows["t_done"] = rows["t_ready"] + B
    count = OnlineCount(rows, B, cut=0)
    for now in (2.0, 2.05, 2.2, 9.0, 9.1):
        count.update(now, 3, NO_STALLS, living(2))
    assert counts(count) == (6, 0, 0)
    assert count.due == 6


def test_nothing_is_decided_before_its_deadline() -> None:
    rows = table(3, 1)
    rows["t_done"] = rows["t_ready"] + 0.1
    count = OnlineCount(rows, B, cut=0)
    count.update(1.99, 3, NO_STALLS, living(1))
    assert count.due == 0
    count.update(3.5, 3, NO_STALLS, living(1))
    assert count.due == 2


def test_cut_frames_and_frames_beyond_the_plan_do_not_count() -> None:
    rows = table(5, 1)
    count = OnlineCount(rows, B, cut=2)
    count.update(50.0, 4, NO_STALLS, living(1))
    assert counts(count) == (0, 2, 0)
    count.update(50.0, 5, NO_STALLS, living(1))
    assert counts(count) == (0, 3, 0)


def test_late_and_missing_answers_are_missed() -> None:
    rows = table(2, 1)
    rows["t_done"][0] = rows["t_ready"][0] + B + 0.001
    count = OnlineCount(rows, B, cut=0)
    count.update(50.0, 2, NO_STALLS, living(1))
    assert counts(count) == (0, 2, 0)


def test_lateness_of_our_own_sending_is_ambiguous() -> None:
    rows = table(1, 1)
    rows["t_sent"] = rows["t_ready"] + 0.05
    rows["t_done"] = rows["t_ready"] + B + 0.04
    count = OnlineCount(rows, B, cut=0)
    count.update(50.0, 1, NO_STALLS, living(1))
    assert counts(count) == (0, 0, 1)


def test_answer_read_in_a_stall_is_ambiguous() -> None:
    rows = table(1, 1)
    done = float(rows["t_ready"][0, 0]) + B + 0.04
    rows["t_done"] = done
    held = np.array([[0.1, 0.2], [done - 0.05, done + 0.001]])
    count = OnlineCount(rows, B, cut=0)
    count.update(50.0, 1, held, living(1))
    assert counts(count) == (0, 0, 1)


def test_stall_shorter_than_the_lateness_is_no_excuse() -> None:
    rows = table(1, 1)
    done = float(rows["t_ready"][0, 0]) + B + 0.04
    rows["t_done"] = done
    count = OnlineCount(rows, B, cut=0)
    count.update(50.0, 1, np.array([[done - 0.03, done + 0.001]]), living(1))
    assert counts(count) == (0, 1, 0)


def test_unsent_frame_of_a_living_session_waits_and_of_a_dead_one_is_missed() -> None:
    rows = table(1, 2)
    rows["t_sent"] = np.nan
    count = OnlineCount(rows, B, cut=0)
    count.update(50.0, 1, NO_STALLS, np.array([False, True]))
    assert counts(count) == (0, 1, 0)


def test_unanswered_frame_sent_late_is_missed_later() -> None:
    rows = table(1, 1)
    rows["t_sent"] = rows["t_ready"] + 0.3
    count = OnlineCount(rows, B, cut=0)
    count.update(2.1, 1, NO_STALLS, living(1))
    assert count.due == 0
    count.update(2.31, 1, NO_STALLS, living(1))
    assert counts(count) == (0, 1, 0)


def test_an_answer_that_cannot_be_played_is_missed() -> None:
    rows = table(2, 1)
    rows["t_done"] = rows["t_ready"] + 0.1
    rows["flags"][1] = FrameFlag.BROKEN
    count = OnlineCount(rows, B, cut=0)
    count.update(9.0, 2, NO_STALLS, living(1))
    assert counts(count) == (1, 1, 0)
