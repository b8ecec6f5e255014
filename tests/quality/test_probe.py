"""The probe over a scripted model whose every fault is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrobench.errors import UsageError
from metrobench.policy import parse_policy
from metrobench.quality import arms, checks
from metrobench.quality.analysis import KEEPS, LOSES, ArmFacts, Quality, analyse
from metrobench.quality.arms import FREE, RENDERED, Arm, choose_policies, first_eviction
from metrobench.quality.formats import CHAT
from metrobench.quality.formats import FREE as FREE_FORMAT
from metrobench.quality.model import Speech
from metrobench.quality.probe import Known, calibrate, converse, make_plan, re_render, replay
from metrobench.quality.questions import QUESTIONS
from metrobench.quality.recycle import Recycling

from .toy import Sees, Toy, everything, window

SESSIONS, ASKED, ANSWER = 10, 24, 8
BLOCK = 1


def facts(policy: str, sees: Sees, sessions: int = SESSIONS) -> ArmFacts:
    """One free-running arm of a toy."""
    model = Toy(sees)
    plan = make_plan(calibrate(model, FREE_FORMAT, QUESTIONS, ANSWER), sessions, ASKED, ANSWER, 0.0, 1)
    return ArmFacts(Arm(policy, FREE), converse(model, FREE_FORMAT, plan), replay(model, FREE_FORMAT, plan))


def probe(sinks: Sees, sessions: int = SESSIONS) -> Quality:
    """Full, 128 and 256 alone, 128 with sinks, re-rendered; `sinks`: what the arm with sinks really sees."""
    model = Toy()
    plan = make_plan(calibrate(model, CHAT, QUESTIONS, ANSWER), sessions, ASKED, ANSWER, 0.0, 1)
    rendered = ArmFacts(Arm("window:128", RENDERED), re_render(model, CHAT, plan, 128), [])
    all_arms = [
        facts("unbounded", everything, sessions),
        facts("window:128", window(128, 0), sessions),
        facts("window:256", window(256, 0), sessions),
        facts("window:128+8", sinks, sessions),
        rendered,
    ]
    return analyse(all_arms, 128, BLOCK, len(QUESTIONS), len(QUESTIONS))


def verdicts(found: Quality) -> dict[str, str]:
    return {each.name: each.verdict for each in found.findings}


def test_a_window_alone_that_ruins_answers_and_sinks_that_save_them_are_told_apart() -> None:
    found = probe(window(128, 8))
    assert found.believed, found.checks
    assert verdicts(found)["window:128"] == LOSES
    assert verdicts(found)["window:128+8"] == KEEPS
    assert found.claims == ["window:128 alone stops answering, the sinks of window:128+8 repair it"]


def test_an_engine_that_masks_its_sinks_is_found_out() -> None:
    found = probe(window(128, 0))
    assert verdicts(found)["window:128+8"] == LOSES
    assert found.claims == []


def test_an_engine_that_drops_too_early_is_found_out() -> None:
    found = probe(window(90, 0))
    broken = [check.name for check in found.checks if check.state == checks.BROKEN]
    assert broken == ["all the same before the first eviction"]
    assert not found.believed


def test_the_likelihood_shows_the_same_without_any_sampling() -> None:
    found = {each.name: each for each in probe(window(128, 8)).findings}
    lost, kept = found["window:128"].nll_loss, found["window:128+8"].nll_loss
    assert lost is not None
    assert kept is not None
    assert lost.value == pytest.approx(2.0)
    assert kept.value == pytest.approx(0.0)


def test_the_onset_stands_at_the_first_age_out_of_sight() -> None:
    found = {each.name: each for each in probe(window(128, 8)).findings}
    for width in (128, 256):
        onset = found[f"window:{width}"].onset
        assert onset is not None
        assert width <= onset.value <= width + 40


def test_few_sessions_are_inconclusive() -> None:
    found = probe(window(128, 8), sessions=4)
    assert not found.believed
    assert found.claims == []


def test_a_model_that_dies_with_full_kv_blames_no_bound() -> None:
    arms_of = [facts(policy, window(128, 0)) for policy in ("unbounded", "window:128", "window:256")]
    found = analyse(arms_of, 128, BLOCK, len(QUESTIONS), len(QUESTIONS))
    assert not found.believed
    states = {check.name: check.state for check in found.checks}
    assert states["unbounded KV answers at every age"] == checks.BROKEN


def test_only_what_the_model_knows_is_asked() -> None:
    model = Toy(knows=lambda question: "capital" in question)
    known = calibrate(model, FREE_FORMAT, QUESTIONS, ANSWER)
    assert known
    assert all("capital" in each.question for each in known)


@given(st.integers(1, 6), st.integers(1, 60), st.integers(0, 99))
def test_no_session_hears_a_question_twice_and_the_seed_decides(sessions: int, count: int, seed: int) -> None:
    pool = [Known(question.text, list(question.aliases), [1], 1) for question in QUESTIONS[:40]]
    plan = make_plan(pool, sessions, count, 8, 0.0, seed)
    for asked in plan.sessions:
        assert len({each.question for each in asked}) == len(asked) == min(count, len(pool))
    assert plan == make_plan(pool, sessions, count, 8, 0.0, seed)


def test_the_age_of_an_answer_is_all_that_the_session_heard_and_said_before() -> None:
    model = Toy()
    plan = make_plan(calibrate(model, FREE_FORMAT, QUESTIONS, ANSWER), 2, 5, ANSWER, 0.0, 1)
    replies = converse(model, FREE_FORMAT, plan)
    text = model.encode(FREE_FORMAT.system)
    for reply in (reply for reply in replies if reply.session == 0):
        text += model.encode(FREE_FORMAT.ask(reply.question))
        assert reply.age == len(text)
        text += reply.tokens + model.encode(FREE_FORMAT.close)


@given(st.integers(50, 120))
def test_re_rendered_prompts_fit_the_window(width: int) -> None:
    model = Toy()
    plan = make_plan(calibrate(model, CHAT, QUESTIONS, ANSWER), 2, 12, ANSWER, 0.0, 1)
    model.prompts.clear()
    re_render(model, CHAT, plan, width)
    assert max(map(len, model.prompts)) <= width


def test_the_replay_scores_the_gold_answer_and_nothing_else() -> None:
    class Marked(Toy):
        def log_probabilities(self, prompts: list[list[int]]) -> list[list[float]]:  # type: ignore[override]
            gold = set(self.encode("It is"))
            return [[-7.0 if token in gold else -1.0 for token in prompt[1:]] for prompt in prompts]

    model = Marked()
    known = [Known(question.text, list(question.aliases), model.encode("It is so"), 2) for question in QUESTIONS[:10]]
    found = replay(model, FREE_FORMAT, make_plan(known, 3, 10, ANSWER, 0.0, 1))
    assert len(found) == 30
    assert all(each.nll == pytest.approx(7.0) for each in found)


def test_controls_are_added_where_they_are_missing() -> None:
    asked, added = choose_policies("window:128,window:128+16", 32)
    assert [str(policy) for policy in asked] == ["window:128", "window:128+32"]
    assert [str(policy) for policy in added] == ["unbounded", "window:256"]
    assert choose_policies("unbounded,window:128,window:256", 32)[1] == []


@pytest.mark.parametrize("asked", ["unbounded", "window:0", "nonsense", "window:128,"])
def test_a_comparison_that_cannot_be_made_is_refused(asked: str) -> None:
    with pytest.raises(UsageError):
        choose_policies(asked, 32)


@given(st.integers(1, 20), st.integers(0, 4), st.sampled_from([1, 16, 32]))
def test_the_first_eviction_of_the_plugin_is_that_of_its_mask(width: int, sinks: int, block: int) -> None:
    from metrobench.kvwindow.mask import Window

    mask = Window(width * block, sinks * block, block)
    policy = parse_policy(f"window:{width * block}+{sinks * block}", block)
    first = next(t for t in range(10_000) if not all(mask.visible(t, key) for key in range(t + 1)))
    assert first_eviction(policy, block) == first
    assert arms.alone(policy) == (sinks == 0)


def test_a_text_is_told_by_position() -> None:
    read = ArmFacts(Arm("unbounded", FREE), facts("unbounded", everything).replies, [], [1.0] * 128 + [3.0] * 200)
    [found] = analyse([read], 128, BLOCK, 100, 100).findings
    assert [(band.age, band.tokens, band.nll) for band in found.text] == [
        ("0-1", 128, 1.0),
        ("1-2", 128, 3.0),
        ("2-4", 72, 3.0),
    ]


@given(st.integers(30, 90), st.integers(2, 6))
def test_a_recycled_context_never_holds_more_than_twice_its_window_and_begins_with_its_last_tokens(
    width: int, most: int
) -> None:
    inner = Toy()
    model = Recycling(inner, width)
    whole: list[int] = []
    for place in range(40):
        tokens = model.encode(f"w{place} " * 7)
        said = model.go_on({"a": tokens}, Speech(most))["a"]
        whole += tokens + said
        [context] = inner.contexts.values()
        assert len(context) <= 2 * width
        assert context == whole[-len(context) :]
        assert len(context) == len(whole) or len(context) > width


@given(st.integers(2, 30), st.integers(1, 200))
def test_recycled_likelihoods_see_between_one_and_two_windows(width: int, length: int) -> None:
    class Counts(Toy):
        def log_probabilities(self, prompts: Sequence[list[int]]) -> list[list[float]]:
            return [[-float(seen) for seen in range(1, len(prompt))] for prompt in prompts]

    [found] = Recycling(Counts(), width).log_probabilities([list(range(length))])
    expected = [seen if seen < 2 * width else width + (seen - 2 * width) % width for seen in range(1, length)]
    assert [-value for value in found] == expected


def test_a_recycled_arm_is_probed_as_the_others_are() -> None:
    model = Recycling(Toy(), 256)
    plan = make_plan(calibrate(model, FREE_FORMAT, QUESTIONS, ANSWER), SESSIONS, ASKED, ANSWER, 0.0, 1)
    said = converse(model, FREE_FORMAT, plan)
    recycled = ArmFacts(Arm("recycle:256", FREE), said, replay(model, FREE_FORMAT, plan))
    found = analyse([facts("unbounded", everything), recycled], 256, BLOCK, len(QUESTIONS), len(QUESTIONS))
    assert [reply.age for reply in said] == [reply.age for reply in facts("unbounded", everything).replies]
    assert {check.name: check.state for check in found.checks}["all the same before the first eviction"] == checks.HELD
    assert verdicts(found)["recycle:256"] == KEEPS
