"""Is it the answer? Aliases, hollow answers, repetition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metrobench.quality.questions import QUESTIONS, Question
from metrobench.quality.scoring import answers, hollow, repetition


def test_no_question_holds_its_own_answer() -> None:
    assert not [question.text for question in QUESTIONS if answers(question.text, question.aliases)]


def test_no_question_is_asked_twice() -> None:
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS)


@given(st.sampled_from(QUESTIONS), st.data())
def test_an_answer_counts_whatever_its_case_and_marks(question: Question, data: st.DataObject) -> None:
    alias = data.draw(st.sampled_from(question.aliases))
    written = data.draw(st.sampled_from([alias, alias.upper(), alias.title()]))
    assert answers(f"It's {written}!", [alias])


def test_a_short_alias_counts_only_as_a_word() -> None:
    assert not answers("The price is nice.", ["ice"])
    assert answers("Frozen water is ice.", ["ice"])


def test_a_long_alias_may_begin_a_longer_word() -> None:
    assert answers("They turn into butterflies.", ["butterfl"])


def test_accents_do_not_matter() -> None:
    assert answers("Brasília", ["brasilia"])


def test_marks_alone_are_hollow() -> None:
    assert hollow(" \n .,;")
    assert not hollow("7")


@given(st.lists(st.integers(0, 5), max_size=200))
def test_repetition_is_a_share(tokens: list[int]) -> None:
    assert 0.0 <= repetition(tokens) <= 1.0


def test_a_loop_is_repetition_and_a_count_is_none() -> None:
    assert repetition([1, 2] * 60) > 0.9
    assert repetition(list(range(100))) == 0.0
