"""What a session is asked, and when. Pure: chunks of 20 ms and seconds from the beginning of its audio."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from metrobench.admission.timetable import Timetable
from metrobench.corpus.manifest import Clip
from metrobench.corpus.stream import LONGEST_TURN, SILENCE
from metrobench.quality.scoring import answers, normalised
from metrobench.units import CHUNK

LEAD_IN = 1.0
"""Seconds of silence before the first question."""
PATIENCE = 2.0
"""Deadlines for which answers to a question are listened for, before the next one."""
JOIN = 3.0
"""Seconds from dialling to the beginning of the audio."""
REST = 1.0
"""Seconds between two sessions in the same place."""
STAGGER = 0.13
"""Seconds between the beginnings of sessions side by side."""
LEAST_ALIAS = 2
"""Letters below which an alias would be found in every answer."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A question as a clip."""

    text: str
    aliases: tuple[str, ...]
    first: int
    """Its first chunk in the table."""
    count: int
    """Chunks up to the end of its speech."""


@dataclass(frozen=True, slots=True)
class Session:
    """What one session hears."""

    questions: tuple[Spoken, ...]
    ends: tuple[float, ...]
    """When each question's last word was spoken; seconds of the session's audio."""
    script: tuple[tuple[int, int], ...]
    """Runs of chunks."""
    length: float
    """Seconds, up to the end of listening to the last answer."""


def usable(clips: Sequence[Clip]) -> list[Clip]:
    """The clips that are questions whose answer can be told from their words."""
    return [clip for clip in clips if clip.seconds < LONGEST_TURN and aliases_of(clip)]


def aliases_of(clip: Clip) -> tuple[str, ...]:
    """The spellings of its answer that neither every answer nor the question itself holds."""
    wanted = clip.answer or ()
    return tuple(
        alias
        for alias in wanted
        if len(normalised(alias).strip()) >= LEAST_ALIAS and not answers(clip.transcript, (alias,))
    )


def lay_out(questions: Sequence[Spoken], deadline: float) -> Session:
    """Questions one after the other, each with PATIENCE deadlines of silence after it."""
    pause = round(PATIENCE * deadline / CHUNK)
    place = round(LEAD_IN / CHUNK)
    script, ends = [(SILENCE, place)], []
    for question in questions:
        place += question.count
        ends.append(place * CHUNK)
        script += [(question.first, question.count), (SILENCE, pause)]
        place += pause
    return Session(tuple(questions), tuple(ends), tuple(script), place * CHUNK)


def long_session(pool: Sequence[Spoken], duration: float, deadline: float, seed: int, number: int) -> Session:
    """As many questions as `duration` seconds hold, at least one, in an order of the session's own; none comes again
    before all were asked."""
    rng = random.Random(f"{seed}/{number}")
    chosen: list[Spoken] = []
    left = duration - LEAD_IN
    while True:
        for question in rng.sample(list(pool), len(pool)):
            left -= question.count * CHUNK + PATIENCE * deadline
            if chosen and left < 0.0:
                return lay_out(chosen, deadline)
            chosen.append(question)


def timetable(sessions: Sequence[Session], at_once: int, unit: float, first_ready: float, budget: float) -> Timetable:
    """`at_once` sessions side by side, each place taken anew when all are over. Frames cover the whole session."""
    arrivals, frames, begin = [], [], 0.0
    for first in range(0, len(sessions), at_once):
        wave = sessions[first : first + at_once]
        counts = [frames_of(each.length, unit, first_ready) for each in wave]
        arrivals += [begin + STAGGER * lane for lane in range(len(wave))]
        frames += counts
        begin += STAGGER * len(wave) + JOIN + max(0.0, first_ready - unit) + max(counts) * unit + budget + REST
    starts = tuple(come + JOIN for come in arrivals)
    return Timetable(tuple(arrivals), starts, tuple(frames), (budget,) * len(arrivals))


def frames_of(length: float, unit: float, first_ready: float) -> int:
    """Frames that cover `length` seconds of audio."""
    return max(1, 1 + -int(-(length - first_ready) // unit))
