from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.measure.verdict import Outcome
from metrobench.measure.warnings import Warn
from metrobench.search.mscs import EFFORTS, FULL, QUICK, STANDARD, Done, Effort, Mscs, MscsSearch, Run, Stop, grid_step

P, F, U, V = Outcome.PASSED, Outcome.FAILED, Outcome.UNRESOLVED, Outcome.VOID


def drive(search: MscsSearch, server: Callable[[int], Outcome]) -> Mscs:
    for _ in range(10_001):
        step = search.next_step()
        if isinstance(step, Done):
            return search.result()
        search.tell(step.sessions, server(step.sessions))
    raise AssertionError("the search does not end")


def exact(capacity: int) -> Callable[[int], Outcome]:
    return lambda n: P if n <= capacity else F


def told(runs: Iterable[tuple[int, Outcome]]) -> Mscs:
    search = MscsSearch()
    for sessions, outcome in runs:
        search.tell(sessions, outcome)
    return search.result()


@pytest.mark.parametrize(
    ("runs", "lo", "hi"),
    [
        ([], 0, None),
        ([(100, P), (110, F)], 0, None),
        ([(100, P), (100, P), (110, F)], 100, None),
        ([(100, P), (100, P), (110, F), (110, F)], 100, 110),
        ([(100, P), (100, F), (90, P), (90, P), (110, F), (110, F)], 90, 110),
        ([(100, P), (100, P), (95, F), (90, P), (90, P), (110, F), (110, F)], 90, 110),
        ([(100, P), (100, P), (105, P), (105, F), (110, F), (110, F)], 100, 110),
        ([(100, P), (100, P), (105, U), (105, F), (105, F), (110, F), (110, F)], 100, 110),
        ([(100, P), (100, P), (100, U), (110, F), (110, F)], 0, 110),
        ([(100, P), (100, P), (110, F), (110, F), (120, P)], 100, 110),
        ([(100, P), (100, P), (100, V), (110, F), (110, F)], 100, 110),
    ],
)
def test_lo_and_hi_by_their_definition(runs: list[tuple[int, Outcome]], lo: int, hi: int | None) -> None:
    found = told(runs)
    assert (found.lo, found.hi) == (lo, hi)


def test_a_pass_above_hi_is_a_warning() -> None:
    found = told([(100, P), (100, P), (110, F), (110, F), (120, P)])
    assert Warn.PASS_ABOVE_HI in found.warnings


def test_the_table_shows_pass_shares_with_exact_intervals() -> None:
    found = told([(100, P), (100, F), (90, P), (90, P), (110, U), (120, V)])
    assert [point.sessions for point in found.points] == [90, 100, 110, 120]
    shares = [point.pass_share for point in found.points]
    assert shares[0] is not None and (shares[0].value, shares[0].lower) == (1.0, pytest.approx(0.158, abs=1e-3))
    assert shares[1] is not None and shares[1].value == 0.5
    assert shares[2] is None and shares[3] is None
    assert [(point.unresolved, point.void) for point in found.points] == [(0, 0), (0, 0), (1, 0), (0, 1)]


@pytest.mark.parametrize(("sessions", "step"), [(1, 1), (19, 1), (30, 2), (100, 5), (200, 10)])
def test_the_grid_step_is_5_percent_or_one_session(sessions: int, step: int) -> None:
    assert grid_step(sessions) == step


def test_a_right_guess_takes_two_runs_at_lo_and_two_at_hi() -> None:
    found = drive(MscsSearch(guess=200), exact(200))
    assert (found.lo, found.hi, found.runs, found.stop) == (191, 211, 4, Stop.CONVERGED)
    assert found.width is not None and found.width <= 0.12


def test_failing_runs_are_repeated_before_passing_ones_because_they_end_early() -> None:
    search = MscsSearch(guess=200)
    search.tell(191, P)
    search.tell(211, F)
    assert search.next_step() == Run(211, "replicate of hi")


@pytest.mark.parametrize("guess", [None, 1, 100, 160, 240, 400, 4096])
@pytest.mark.parametrize("capacity", [1, 2, 3, 9, 47, 200, 1234])
@pytest.mark.parametrize("effort", EFFORTS.values(), ids=EFFORTS)
def test_an_exact_server_is_found_from_any_guess(capacity: int, guess: int | None, effort: Effort) -> None:
    found = drive(MscsSearch(effort, guess=guess), exact(capacity))
    assert found.hi is not None
    assert found.lo <= capacity < found.hi
    assert found.stop is Stop.CONVERGED
    assert found.hi - found.lo <= max(1, effort.width * (found.lo + found.hi) / 2)
    assert found.warnings == ()


@pytest.mark.parametrize("runs", range(5, 12))
@pytest.mark.parametrize(("guess", "capacity"), [(200, 200), (200, 150), (145, 90), (100, 150)])
def test_a_search_with_time_for_a_few_runs_confirms_the_ends_that_it_has(guess: int, capacity: int, runs: int) -> None:
    search, server = MscsSearch(STANDARD, guess=guess), exact(capacity)
    needed = 0
    for left in reversed(range(1, runs + 1)):
        step = search.next_step(left)
        if isinstance(step, Done):
            break
        search.tell(step.sessions, server(step.sessions))
        lo, hi = search.result().passed_once, search.result().failed_once
        needed = needed or (runs - left + 1 if lo and hi else 0)
    search.halt(Stop.MAX_TIME)
    found = search.result()
    assert not needed or needed + 2 > runs or (found.hi is not None and 0 < found.lo <= capacity < found.hi)


def test_in_haste_the_lower_end_comes_first() -> None:
    search = MscsSearch(guess=200)
    search.tell(191, P)
    search.tell(211, F)
    assert search.next_step(4) == Run(211, "replicate of hi")
    assert search.next_step(3) == Run(191, "replicate of lo, time runs out")
    search.tell(191, P)
    assert search.next_step(2) == Run(211, "replicate of hi, time runs out")


@pytest.mark.parametrize(("effort", "replicates"), [(QUICK, 2), (STANDARD, 2), (FULL, 10)])
def test_each_effort_repeats_both_ends(effort: Effort, replicates: int) -> None:
    found = drive(MscsSearch(effort, guess=200), exact(200))
    ends = {point.sessions: point for point in found.points}
    assert found.hi is not None
    assert (ends[found.lo].passed, ends[found.hi].failed) == (replicates, replicates)


def test_a_narrow_run_asks_for_one_replicate_more() -> None:
    search = MscsSearch(STANDARD, guess=200)
    for sessions, outcome in ((191, P), (211, F), (211, F)):
        search.tell(sessions, outcome, narrow=outcome is P)
    search.tell(191, P)
    assert search.next_step() == Run(191, "replicate of lo")
    search.tell(191, P)
    assert search.next_step() == Done(Stop.CONVERGED)


def test_a_failed_replicate_at_lo_moves_lo_down_and_the_disputed_number_stays_inside() -> None:
    outcomes = {191: iter([P, F])}
    found = drive(MscsSearch(guess=200), lambda n: next(outcomes[n]) if n in outcomes else exact(200)(n))
    assert found.hi is not None
    assert found.lo < 191 < found.hi
    assert found.stop is Stop.CONVERGED


def test_an_unresolved_number_counts_as_neither_and_is_not_asked_again() -> None:
    asked: list[int] = []

    def server(n: int) -> Outcome:
        asked.append(n)
        return U if 195 <= n <= 205 else exact(200)(n)

    found = drive(MscsSearch(guess=210), server)
    assert found.hi is not None and found.lo < 195 and found.hi > 205
    assert all(asked.count(n) == 1 for n in range(195, 206) if n in asked)


def test_a_void_run_is_repeated_once() -> None:
    outcomes = iter([V, P, F, F, P])
    search = MscsSearch(guess=200)
    first = search.next_step()
    assert isinstance(first, Run)
    found = drive(search, lambda n: next(outcomes))
    assert (found.stop, found.runs) == (Stop.CONVERGED, 5)


def test_void_again_stops_the_search_with_what_it_has() -> None:
    outcomes = iter([P, V, V])
    found = drive(MscsSearch(guess=200), lambda n: next(outcomes))
    assert (found.stop, found.lo, found.passed_once) == (Stop.VOID_TWICE, 0, 191)
    assert Warn.NOT_CONVERGED in found.warnings


@pytest.mark.parametrize("most", [100, 150, 190])
def test_a_guess_that_is_beyond_the_client_is_halved_and_the_truth_found_below(most: int) -> None:
    found = drive(MscsSearch(guess=400), lambda n: V if n > most else exact(90)(n))
    assert (found.stop, found.lo <= 90 < (found.hi or 0)) == (Stop.CONVERGED, True)


def test_a_client_that_can_prove_nothing_anywhere_ends_the_search() -> None:
    asked: list[int] = []

    def server(n: int) -> Outcome:
        asked.append(n)
        return V

    found = drive(MscsSearch(guess=400), server)
    assert (found.stop, found.lo, found.hi) == (Stop.VOID_TWICE, 0, None)
    assert asked == [381, 381, 181, 181, 86, 86]


def test_a_run_on_a_slow_machine_is_repeated_until_the_machine_is_itself_again() -> None:
    search = MscsSearch(guess=200)
    step = search.next_step()
    for _ in range(5):
        assert isinstance(step, Run)
        search.tell(step.sessions, V, transient=True)
        assert search.next_step() == Run(step.sessions, "again, the last run was void")
    assert drive(search, exact(200)).stop is Stop.CONVERGED


def test_nothing_failing_up_to_the_cap_is_a_lower_bound() -> None:
    found = drive(MscsSearch(guess=200, max_sessions=256), exact(10_000))
    assert (found.lo, found.hi, found.stop, found.width) == (256, None, Stop.LOWER_BOUND, None)


def test_one_session_failing_gives_0_to_1() -> None:
    found = drive(MscsSearch(guess=30), exact(0))
    assert (found.lo, found.hi, found.stop) == (0, 1, Stop.NOTHING_PASSED)


def test_the_cap_is_never_exceeded_and_a_guess_above_it_is_lowered() -> None:
    asked: list[int] = []

    def server(n: int) -> Outcome:
        asked.append(n)
        return P

    drive(MscsSearch(guess=900, max_sessions=100), server)
    assert max(asked) == 100


def test_the_number_of_runs_is_bounded() -> None:
    found = drive(MscsSearch(guess=200, max_runs=3), exact(1000))
    assert (found.runs, found.stop) == (3, Stop.MAX_RUNS)


@pytest.mark.parametrize("stop", [Stop.MAX_TIME, Stop.INTERRUPTED])
def test_a_search_halted_from_outside_keeps_its_interval_so_far(stop: Stop) -> None:
    search = MscsSearch(guess=200)
    for sessions, outcome in ((191, P), (211, F), (211, F), (191, P)):
        search.tell(sessions, outcome)
    search.halt(stop)
    assert search.next_step() == Done(stop)
    assert (search.result().lo, search.result().hi, search.result().stop) == (191, 211, stop)


def test_asking_twice_without_telling_gives_the_same_step() -> None:
    search = MscsSearch(guess=200)
    assert search.next_step() == search.next_step() == Run(191, "first")


@pytest.mark.parametrize("wrong", [{"max_sessions": 0}, {"max_sessions": 10**7}, {"max_runs": 0}])
def test_limits_out_of_bounds_are_usage_errors(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        MscsSearch(**wrong)


@pytest.mark.parametrize("stop", Stop)
def test_every_stop_has_words(stop: Stop) -> None:
    assert stop.words


@settings(max_examples=300)
@given(
    outcomes=st.lists(st.sampled_from([P, F, U, V, P, F]), max_size=200),
    guess=st.none() | st.integers(-5, 5000),
    cap=st.integers(1, 3000),
    effort=st.sampled_from(list(EFFORTS.values())),
)
def test_whatever_the_outcomes_the_search_ends_with_lo_below_hi(outcomes, guess, cap, effort) -> None:
    """Even a server that answers at random: every step lies within 1 .. cap, and the definitions hold at the end."""
    script = iter(outcomes)
    search = MscsSearch(effort, guess=guess, max_sessions=cap, max_runs=10_000)
    runs: list[tuple[int, Outcome]] = []

    def server(n: int) -> Outcome:
        assert 1 <= n <= cap
        runs.append((n, next(script, P if n <= cap // 2 else F)))
        return runs[-1][1]

    found = drive(search, server)
    assert found.runs == len(runs) == sum(p.passed + p.failed + p.unresolved + p.void for p in found.points)
    assert found.hi is None or found.lo < found.hi
    assert found.lo <= found.passed_once <= cap
    by_n = {n: [outcome for m, outcome in runs if m == n and outcome is not V] for n, _ in runs}
    if found.lo:
        assert len(by_n[found.lo]) >= 2 and set(by_n[found.lo]) == {P}
        assert not any(F in outcomes for n, outcomes in by_n.items() if n < found.lo)
    if found.hi is not None:
        assert len(by_n[found.hi]) >= 2 and set(by_n[found.hi]) == {F}
    if found.stop is Stop.CONVERGED:
        assert found.hi is not None
        assert found.hi - found.lo <= max(1, math.ceil(max(0.15, effort.width) * (found.lo + found.hi) / 2))
