"""Random histories of a door: periods of observations and sessions that come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from metrobench.admission.base import Decision, Observation
from metrobench.admission.choice import Choice, make_door
from metrobench.admission.door import Door

CEILING = 60
KV = 40


@dataclass(frozen=True)
class Period:
    """One period: who asks, who leaves, what is measured."""

    arrivals: int
    departures: int
    latencies: list[float]
    rho: float | None
    void: bool


periods = st.lists(
    st.builds(
        Period,
        arrivals=st.integers(0, 30),
        departures=st.integers(0, 10),
        latencies=st.lists(st.floats(0.0, 5.0), max_size=20),
        rho=st.none() | st.floats(0.0, 1.0),
        void=st.booleans(),
    ),
    max_size=30,
)
choices = st.sampled_from([Choice("none"), Choice("static", 7), Choice("kv"), Choice("aimd"), Choice("aimd+kv")])


@dataclass
class History:
    """What happened at the door."""

    door: Door
    sessions: int = 0
    left: int = 0
    decisions: list[tuple[int, Decision]] = field(default_factory=list)
    """Sessions open when asked, and the answer."""
    caps: list[tuple[int | None, int | None, Period]] = field(default_factory=list)
    """The cap before and after each observation."""


def drive(choice: Choice, steps: list[Period], budget: float = 1.0) -> History:
    """Play the periods, one second each."""
    history = History(make_door(choice, budget, KV, CEILING))
    for number, step in enumerate(steps):
        for place in range(step.arrivals):
            decision = history.door.ask(number + place / 100.0, history.sessions)
            history.decisions.append((history.sessions, decision))
            history.sessions += decision.admitted
        for _ in range(min(step.departures, history.sessions)):
            history.door.left(number + 0.5)
            history.sessions -= 1
            history.left += 1
        before = history.door.controller.cap
        seen = Observation(number + 1.0, history.sessions, step.latencies, step.rho, step.void)
        history.door.observe(seen)
        history.caps.append((before, history.door.controller.cap, step))
    return history
