from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metrobench.admission.timetable import Timetable
from metrobench.load.agenda import BEGIN, COME, HUSH, LEAVE, Agenda

UNIT = 0.5
tables = st.lists(
    st.tuples(st.floats(0.0, 100.0), st.floats(0.1, 10.0), st.integers(1, 50), st.floats(0.05, 2.0)),
    min_size=1,
    max_size=30,
).map(
    lambda rows: Timetable(
        tuple(row[0] for row in rows),
        tuple(row[0] + row[1] for row in rows),
        tuple(row[2] for row in rows),
        tuple(row[3] for row in rows),
    )
)
clock = st.lists(st.floats(0.0, 40.0), max_size=20)


@given(tables, clock)
def test_every_step_is_taken_once_in_its_order_however_the_clock_jumps(table: Timetable, gaps: list[float]) -> None:
    agenda, t, found = Agenda(table, UNIT), 0.0, []
    for gap in [*gaps, 1e6]:
        t += gap
        found += agenda.take(t)
    for number in range(len(table)):
        assert [kind for kind, who in found if who == number] == [COME, BEGIN, HUSH, LEAVE]
    assert len(found) == 4 * len(table)


@given(tables, st.floats(0.0, 200.0))
def test_nothing_is_taken_before_its_time(table: Timetable, t: float) -> None:
    taken = Agenda(table, UNIT).take(t)
    times = {COME: table.arrivals, BEGIN: table.starts}
    assert all(times[kind][who] <= t for kind, who in taken if kind in times)
    came = {who for kind, who in taken if kind == COME}
    assert came == {who for who, when in enumerate(table.arrivals) if when <= t}


@given(tables)
def test_nobody_hangs_up_before_the_last_deadline(table: Timetable) -> None:
    ends = table.ends(UNIT)
    last = max(float(end) + budget for end, budget in zip(ends, table.budgets, strict=True))
    assert Agenda(table, UNIT).end >= last
