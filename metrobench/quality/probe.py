"""The probe itself, over any model: calibration, free-running and chat sessions, re-rendered turns, scripted replay.

Everything an arm says is kept as one `Reply` a question; numbers are derived from replies later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from metrobench.quality.formats import Format
from metrobench.quality.model import Model, Speech
from metrobench.quality.questions import Question
from metrobench.quality.scoring import answers, hollow, repetition

SCORED = 10
"""Tokens of a gold answer, from its first, whose likelihood is measured."""


class Known(Struct, frozen=True):
    """A question that the model answers right in fresh context, and that answer."""

    question: str
    aliases: list[str]
    speech: list[int]
    """All that it said then, up to K tokens: what a transcript holds, so that it ages as a session does."""
    gold: int
    """Leading tokens of it that are the answer; the others are what it says when the answer is over."""


class Reply(Struct, frozen=True):
    """What one session said to one question, or how likely it found the right answer."""

    session: int
    place: int
    """Order within the session, from 0."""
    age: int
    """Tokens of the session before the answer's first."""
    question: str
    text: str
    right: bool
    first: bool
    """It names the answer of the session's first question, and not its own."""
    hollow: bool
    repetition: float
    tokens: list[int]


class Likelihood(Struct, frozen=True):
    """How likely an arm found one gold answer of a fixed transcript."""

    session: int
    place: int
    age: int
    nll: float
    """Mean negative log-likelihood of its first SCORED tokens, nats a token."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every arm is asked, in the same order."""

    sessions: tuple[tuple[Known, ...], ...]
    """For each session its questions; none twice in one session."""
    answer: int
    """K: tokens of an answer, at most."""
    temperature: float = 0.0
    seed: int = 0


def make_plan(pool: Sequence[Known], sessions: int, questions: int, answer: int, temperature: float, seed: int) -> Plan:
    """Each session's questions, drawn without repetition by its own seed. At most `len(pool)` questions a session."""
    drawn = []
    for number in range(sessions):
        order = list(pool)
        random.Random(f"{seed}/{number}").shuffle(order)
        drawn.append(tuple(order[:questions]))
    return Plan(tuple(drawn), answer, temperature, seed)


def calibrate(model: Model, form: Format, questions: Sequence[Question], answer: int) -> list[Known]:
    """The questions that the model answers right when asked alone, greedily."""
    prompts = [model.encode(form.system + form.ask(question.text)) for question in questions]
    said = model.complete(prompts, _speech(model, form, Plan((), answer)))
    known = []
    for question, tokens in zip(questions, said, strict=True):
        if answers(form.judged(model.decode(tokens)), question.aliases):
            known.append(Known(question.text, list(question.aliases), tokens, _length(model, form, tokens)))
    return known


def converse(model: Model, form: Format, plan: Plan, seen: Callable[[int], None] = lambda _: None) -> list[Reply]:
    """Long sessions side by side whose KV stays: every session is asked its next question, all answer, and so on.

    In a format without turns every answer has exactly K tokens, so that all arms see the same batches.
    """
    count = len(plan.sessions)
    names = [f"{form.turns:d}-{number}" for number in range(count)]
    pending = {name: model.encode(form.system) for name in names}
    ages = dict.fromkeys(names, 0)
    spoken: dict[str, list[int]] = {name: [] for name in names}
    replies: list[Reply] = []
    for place in range(max(map(len, plan.sessions), default=0)):
        inputs = {}
        for name, questions in zip(names, plan.sessions, strict=True):
            if place < len(questions):
                inputs[name] = pending[name] + model.encode(form.ask(questions[place].question))
                ages[name] += len(inputs[name])
        said = model.go_on(inputs, _speech(model, form, plan, place))
        for number, name in enumerate(names):
            if name in said:
                spoken[name] += said[name]
                replies.append(_reply(model, form, plan, number, place, ages[name], said[name], spoken[name]))
                ages[name] += len(said[name])
                pending[name] = model.encode(form.close)
        seen(place + 1)
    model.close(names)
    return replies


def re_render(
    model: Model, form: Format, plan: Plan, window: int, seen: Callable[[int], None] = lambda _: None
) -> list[Reply]:
    """The control: each turn is a new request of the system prompt, the last whole turns that fit into `window`
    tokens, and the question, computed from position 0. The age is that of the conversation."""
    system = model.encode(form.system)
    count = len(plan.sessions)
    turns: list[list[list[int]]] = [[] for _ in range(count)]
    ages = [len(system)] * count
    spoken: list[list[int]] = [[] for _ in range(count)]
    replies: list[Reply] = []
    for place in range(max(map(len, plan.sessions), default=0)):
        asked = [number for number in range(count) if place < len(plan.sessions[number])]
        prompts, new = [], {}
        for number in asked:
            new[number] = model.encode(form.ask(plan.sessions[number][place].question))
            prompts.append(system + _latest(turns[number], window - len(system) - len(new[number])) + new[number])
        said = model.complete(prompts, _speech(model, form, plan, place))
        for number, tokens in zip(asked, said, strict=True):
            ages[number] += len(new[number])
            spoken[number] += tokens
            replies.append(_reply(model, form, plan, number, place, ages[number], tokens, spoken[number]))
            turns[number].append(new[number] + tokens + model.encode(form.close))
            ages[number] += len(turns[number][-1]) - len(new[number])
        seen(place + 1)
    return replies


def replay(model: Model, form: Format, plan: Plan) -> list[Likelihood]:
    """The same transcript for every arm: questions and gold answers; how likely is each gold answer?"""
    scripts, marks = [], []
    for questions in plan.sessions:
        tokens, ends = model.encode(form.system), []
        for known in questions:
            tokens = tokens + model.encode(form.ask(known.question))
            ends.append((len(tokens), len(tokens) + min(SCORED, known.gold)))
            tokens = tokens + known.speech + model.encode(form.close)
        scripts.append(tokens)
        marks.append(ends)
    found = []
    for session, (values, ends) in enumerate(zip(model.log_probabilities(scripts), marks, strict=True)):
        for place, (begin, end) in enumerate(ends):
            # values[i] is that of token i + 1
            nll = -sum(values[begin - 1 : end - 1]) / (end - begin)
            found.append(Likelihood(session, place, begin, nll))
    return found


def perplexity(model: Model, tokens: list[int]) -> list[float]:
    """Negative log-likelihood of each token of one text but the first, nats."""
    return [-value for value in model.log_probabilities([tokens])[0]]


def _reply(
    model: Model, form: Format, plan: Plan, session: int, place: int, age: int, tokens: list[int], spoken: list[int]
) -> Reply:
    known, first = plan.sessions[session][place], plan.sessions[session][0]
    text = model.decode(tokens)
    judged = form.judged(text)
    right = answers(judged, known.aliases)
    return Reply(
        session=session,
        place=place,
        age=age,
        question=known.question,
        text=text,
        right=right,
        first=place > 0 and not right and answers(judged, first.aliases),
        hollow=hollow(judged),
        repetition=repetition(spoken),
        tokens=tokens,
    )


def _length(model: Model, form: Format, tokens: list[int]) -> int:
    """Leading tokens that are the answer itself, at least one."""
    for count in range(1, len(tokens)):
        if form.end in model.decode(tokens[: count + 1]):
            return count
    return max(1, len(tokens))


def _speech(model: Model, form: Format, plan: Plan, place: int = 0) -> Speech:
    specials = tuple(model.specials())
    return Speech(
        most=plan.answer,
        stop=specials if form.turns else (),
        banned=() if form.turns else specials,
        temperature=plan.temperature,
        seed=plan.seed * 1000 + place,
    )


def _latest(turns: list[list[int]], room: int) -> list[int]:
    """The last whole turns of at most `room` tokens."""
    kept: list[int] = []
    for turn in reversed(turns):
        if len(kept) + len(turn) > room:
            break
        kept = turn + kept
    return kept
