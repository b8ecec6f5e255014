"""A search that goes on makes the runs that it would have made without the stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.measure.verdict import Outcome
from metrobench.search.mscs import EFFORTS, Done, MscsSearch
from metrobench.search.replay import Told, replay


def outcomes(search: MscsSearch, answers: list[tuple[Outcome, bool]], most: int, left: int | None = None) -> list[Told]:
    """What `search` was told by a server that answers so, for at most `most` runs; `left`: of runs it had time for."""
    told = []
    for outcome, flag in answers[:most]:
        step = search.next_step(left and left - len(told))
        if isinstance(step, Done):
            break
        run = Told(step.sessions, outcome, narrow=flag, transient=flag and outcome is Outcome.VOID)
        search.tell(run.sessions, run.outcome, narrow=run.narrow, transient=run.transient)
        told.append(run)
    return told


@given(
    st.sampled_from(sorted(EFFORTS)),
    st.none() | st.integers(1, 300),
    st.lists(st.tuples(st.sampled_from(Outcome), st.booleans()), max_size=30),
    st.integers(0, 30),
    st.none() | st.integers(1, 30),
)
def test_a_replayed_search_goes_on_as_the_first_one(
    effort: str, guess: int | None, answers: list[tuple[Outcome, bool]], stop: int, left: int | None
) -> None:
    first = MscsSearch(EFFORTS[effort], guess=guess)
    told = outcomes(first, answers, stop, left)
    again = MscsSearch(EFFORTS[effort], guess=guess)
    replay(again, told)
    assert again.next_step() == first.next_step()
    assert again.result() == first.result()


def test_a_record_that_does_not_follow_is_refused() -> None:
    run = Told(77, Outcome.PASSED, narrow=False, transient=False)
    with pytest.raises(UsageError, match="this search would make one at 1 sessions"):
        replay(MscsSearch(), [run])


def test_runs_after_the_end_are_refused() -> None:
    void = Told(1, Outcome.VOID, narrow=False, transient=False)
    with pytest.raises(UsageError, match="would make none"):
        replay(MscsSearch(), [void, void, void])
