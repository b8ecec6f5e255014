"""What the arithmetic says of a model on a GPU: the four limits, before anything has run. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metrobench.measure.frames import Floats, Ints
from metrobench.policy import UNBOUNDED, WINDOW, KvPolicy, most_in_flight, parse_policy
from metrobench.predict.limits import ENCODER, HOST, KV, POSITIONS, Chance, Limit, Outcome, Prediction, earliest
from metrobench.predict.model import (
    Group,
    Pool,
    blocks_of,
    crossing,
    impossible,
    most_blocks,
    most_sessions,
    positions_end,
    sessions_for,
)
from metrobench.predict.talk import Load, Rates, Spread, Voices, rates_of, speaking_share, spread
from metrobench.profiles import Profile
from metrobench.schedule import offset_of, phases
from metrobench.units import memory, percent, seconds

USUAL = 300.0
"""Seconds that sessions are asked to last where nobody says how long."""
FALLBACK = "window:1024+16"
"""The policy that is offered where the profile's own bounds nothing: the paper's."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A deployment and its load."""

    profile: Profile
    pool: Pool
    pool_source: str
    """Where its size comes from, in words."""
    asked: KvPolicy
    ages: Floats
    """Seconds for which each session has talked already, shape (sessions,)."""
    arrivals: Floats
    """Seconds until each session comes, shape (sessions,)."""
    talk: Voices | float
    """What users say, or the share of frames in which the model speaks."""
    seed: int = 1
    duration: float | None = None
    """Seconds that the sessions are to last."""
    beside_bytes: float | None = None
    """GPU memory that the engine leaves to the other stages; None: not known."""

    @property
    def sessions(self) -> int:
        """N."""
        return len(self.ages)

    @property
    def rates(self) -> Rates:
        """What the profile's frames add."""
        return rates_of(self.profile.timing)

    @property
    def policy(self) -> KvPolicy:
        """In force: a model that attends to a window of its own needs no policy to be bounded."""
        window = self.profile.decoder.native_window
        policy = KvPolicy(WINDOW, window) if window is not None and not self.asked.bounded else self.asked
        return policy.on_blocks(self.pool.block_size)

    @property
    def in_flight(self) -> int:
        """I, tokens."""
        return most_in_flight(self.profile.timing.most_tokens, self.pool.block_size)

    def share(self) -> float:
        """Share of the frames in which the model speaks."""
        return speaking_share(self.talk, self.rates, self.seed)

    def resident(self, growth: float) -> Ints:
        """Tokens that sessions of these ages hold, shape (sessions,)."""
        tokens = np.round(np.floor(self.ages / self.rates.unit) * growth).astype(np.int64)
        most = self.policy.most_tokens
        return np.minimum(tokens, most) if self.policy.bounded else tokens

    def group(self, growth: float) -> Group:
        """The sessions, each frame of which adds `growth` tokens."""
        starts = self.arrivals + phases(self.sessions, self.profile.budget, offset_of(self.seed))
        return Group(starts, self.rates.unit, growth, self.resident(growth), self.policy, self.in_flight)


def predict(scenario: Scenario) -> Prediction:
    """All four limits, what was assumed, what would help."""
    share = scenario.share()
    times = _spread(scenario, share)
    limits = [_kv(scenario, share, times), _positions(scenario, share), _encoder(scenario), _host()]
    chance = None
    if scenario.duration is not None:
        chance = _chance(limits[0], scenario.duration, times)
    return Prediction(limits, scenario.sessions, chance, _assumptions(scenario, share), _helps(scenario, share, limits))


def _spread(scenario: Scenario, share: float) -> Spread | None:
    """t* over talk patterns, where they decide anything."""
    if scenario.policy.bounded or scenario.rates.constant:
        return None
    pool, resident = scenario.pool, scenario.resident(scenario.rates.mean(share))
    if int(blocks_of(resident, pool.block_size).sum()) > pool.usable:
        return None
    load = Load(scenario.arrivals, resident, scenario.rates, scenario.talk, scenario.profile.budget)
    return spread(pool, load, scenario.seed)


def _kv(scenario: Scenario, share: float, times: Spread | None) -> Limit:
    pool = scenario.pool
    if times is not None:
        return Limit(KV, Outcome.DATE, f"full; {times.why}", times.time, times.lower, times.upper)
    group = scenario.group(scenario.rates.mean(share))
    most = most_blocks(group, pool.block_size)
    if impossible(pool, [group]):
        held = (most or 0) * group.sessions
        return Limit(KV, Outcome.NEVER, f"{group.sessions} sessions hold at most {held:,} of {pool.usable:,} blocks")
    time = crossing(pool, [group], at_peak=False)
    if time is not None:
        lower, upper = _between(scenario, lambda each: crossing(pool, [each], at_peak=False))
        return Limit(KV, Outcome.DATE, "full" if time else "too small for these sessions", time, lower, upper)
    time = crossing(pool, [group])
    if time is None:
        return Limit(KV, Outcome.NEVER, "its contexts, closed in turn, never fill it all at once")
    why = "full, if enough sessions have a frame in the engine at once"
    return Limit(KV, Outcome.POSSIBLE, why, time)


def _between(scenario: Scenario, date: Callable[[Group], float | None]) -> tuple[float | None, float | None]:
    """A date if the model spoke always, and if it never did; None for both where that is the same."""
    rates = scenario.rates
    if rates.constant:
        return None, None
    fast, slow = max(rates.listening, rates.speaking), min(rates.listening, rates.speaking)
    return date(scenario.group(fast)), date(scenario.group(slow))


def _positions(scenario: Scenario, share: float) -> Limit:
    decoder, timing = scenario.profile.decoder, scenario.profile.timing
    if decoder.max_positions is None:
        return Limit(POSITIONS, Outcome.NEVER, "they roll for ever")
    if scenario.asked.bounded:
        why = f"contexts are built again before position {decoder.max_positions:,}"
        return Limit(POSITIONS, Outcome.NEVER, why)

    def end(group: Group) -> float:
        return positions_end(group, decoder.max_positions or 0, timing.tokens_in)

    lower, upper = _between(scenario, end)
    why = f"a request passes {decoder.max_positions:,} tokens, which ends the engine for all"
    return Limit(POSITIONS, Outcome.DATE, why, end(scenario.group(scenario.rates.mean(share))), lower, upper)


def _encoder(scenario: Scenario) -> Limit:
    """What the other stages keep of a session is known for some models; where a server keeps it is not."""
    stages, room = scenario.profile.stages, scenario.beside_bytes
    if not stages:
        return Limit(ENCODER, Outcome.UNKNOWN, "the profile does not say what other stages keep of a session")
    names = " and ".join(stages)
    if any(stage.session_bytes is None for stage in stages.values()):
        return Limit(ENCODER, Outcome.UNKNOWN, f"{names}: what is kept of a session has no known end")
    each = scenario.profile.stage_bytes
    if room is not None and each * scenario.sessions <= room:
        held = memory(each * scenario.sessions)
        return Limit(ENCODER, Outcome.NEVER, f"{names}: {held} of the {memory(room)} beside the engine")
    fits = "" if room is None else f", which fits beside the engine at N <= {int(room // each)}"
    return Limit(ENCODER, Outcome.UNKNOWN, f"{names}: up to {memory(each)} a session{fits}")


def _host() -> Limit:
    return Limit(HOST, Outcome.UNKNOWN, "what a front end keeps of old frames differs from server to server")


def _chance(kv: Limit, duration: float, times: Spread | None) -> Chance | None:
    if times is not None:
        return Chance(duration, times.before(duration))
    if kv.outcome is Outcome.POSSIBLE:
        return None
    return Chance(duration, float(kv.time is not None and kv.time < duration))


def _assumptions(scenario: Scenario, share: float) -> list[str]:
    pool, rates, timing = scenario.pool, scenario.rates, scenario.profile.timing
    tokens = pool.usable * pool.block_size
    found = [f"a pool of {tokens:,} tokens, {pool.usable:,} blocks of {pool.block_size}: {scenario.pool_source}"]
    frame = f"a frame of {seconds(rates.unit)} adds {rates.listening}"
    if rates.constant:
        found.append(f"{frame} token{'s' if rates.listening > 1 else ''} to a context")
    else:
        source = "the audio decides" if isinstance(scenario.talk, Voices) else "given"
        found.append(
            f"{frame} tokens to a context while the model listens, {rates.speaking} while it speaks, in"
            f" {percent(share, 0)} of the frames ({source})"
        )
    together = "all sessions start together" if not scenario.arrivals.any() and not scenario.ages.any() else ""
    found.append(", ".join(word for word in (together, "nobody leaves", "no prefix is shared") if word))
    if scenario.policy != scenario.asked.on_blocks(pool.block_size):
        window = scenario.profile.decoder.native_window
        found.append(f"vLLM frees what lies behind the {window:,} positions that the model attends to")
    if scenario.asked.bounded and scenario.profile.decoder.max_positions is not None:
        last = scenario.profile.decoder.max_positions / rates.mean(share) * rates.unit
        found.append(
            f"contexts are built again in time, as metrobench's worker does; a stock engine ends with the first"
            f" request that lives for {seconds(last)}"
        )
    if timing.tokens_out_listening != timing.tokens_out_speaking and not isinstance(scenario.talk, Voices):
        found.append("turns come at random, one in 5 s in the mean")
    return found


def _helps(scenario: Scenario, share: float, limits: list[Limit]) -> list[str]:
    first = earliest(limits)
    if first is None:
        return []
    own = parse_policy(scenario.profile.kv)
    offer = (own if own.bounded else parse_policy(FALLBACK)).on_blocks(scenario.pool.block_size)
    most = most_sessions(scenario.pool, offer, scenario.in_flight)
    if first.name == POSITIONS:
        return [f"{offer}, or sessions that end before that: metrobench's worker builds bounded contexts again in time"]
    if scenario.policy.bounded:
        most = most_sessions(scenario.pool, scenario.policy, scenario.in_flight)
        return [f"N <= {most} makes this impossible at {scenario.policy}"]
    duration = scenario.duration or USUAL
    lasting = sessions_for(scenario.pool, duration, scenario.rates.unit, scenario.rates.mean(share))
    found = [f"{offer} makes this impossible at N <= {most}"] if most else []
    if lasting:
        found.append(f"{KvPolicy(UNBOUNDED)} lasts {seconds(duration)} at N <= {lasting}, in the mean")
    return found
