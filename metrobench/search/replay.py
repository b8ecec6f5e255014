"""A search that was stopped goes on: it is told again what its runs found, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from metrobench.errors import UsageError
from metrobench.measure.verdict import Outcome
from metrobench.search.mscs import Done, MscsSearch, Run


class Told(Struct, frozen=True):
    """One run of a search, as `MscsSearch.tell` takes it."""

    sessions: int
    outcome: Outcome
    narrow: bool
    transient: bool


def replay(search: MscsSearch, runs: Sequence[Told]) -> None:
    """Bring a fresh search to where it was after `runs`. Raises UsageError where it would not have made them."""
    for number, run in enumerate(runs, 1):
        step = search.next_step()
        if isinstance(step, Run) and step.sessions != run.sessions:
            step = search.next_step(left=0)
        if isinstance(step, Done) or step.sessions != run.sessions:
            wanted = "none" if isinstance(step, Done) else f"one at {step.sessions} sessions"
            raise UsageError(
                f"run {number} of the record was at {run.sessions} sessions, this search would make {wanted}",
                "the record is another version's, or was changed: start anew",
            )
        search.tell(run.sessions, run.outcome, narrow=run.narrow, transient=run.transient)
