from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from metrobench.gate.findings import Answer, Finding, exit_code, overall
from metrobench.gate.judge import judge
from metrobench.gate.knee import RUN_SD, knee
from metrobench.gate.moderated import Value, contrast, more, paired
from metrobench.gate.rules import default_policy, parse_policy
from metrobench.gate.samples import Forecast, Pair, Sample, Trial
from metrobench.measure.growth import Slope
from metrobench.measure.intervals import Share
from tests.gate.simulated import CONDITIONS, alternating, sample, trial


def searched(lo: int, hi: int, **changes: object) -> Sample:
    runs = [trial(lo), trial(lo), trial(hi, "failed"), trial(hi, "failed")]
    return sample(*runs, lo=lo, hi=hi, **changes)


def ran(*trials: Trial, **changes: object) -> Sample:
    return sample(*trials, kind="run", **{"conditions": CONDITIONS | {"sessions": "64"}, **changes})


def only(table: dict[str, object], before: list[Sample], now: list[Sample], allow: tuple[str, ...] = ()) -> Finding:
    (found,) = judge(parse_policy(table, "a test"), before, now, allow).findings
    return found


DROP: dict[str, object] = {"mscs": {"max_drop": "15%"}}
RISE: dict[str, object] = {"p99": {"max_rise": "30%"}}


def test_three_like_searches_pass() -> None:
    same = [searched(100, 110)] * 3
    found = only(DROP, same, same)
    assert found.answer is Answer.PASS
    assert found.effect is not None and found.effect.value == pytest.approx(0.0, abs=1e-9)
    assert found.baseline == pytest.approx(104.9, abs=0.5)


def test_half_the_capacity_fails_with_its_size_and_the_test_named() -> None:
    found = only(DROP, [searched(100, 110)] * 3, [searched(50, 55)])
    assert found.answer is Answer.FAIL
    assert found.effect is not None and found.effect.value == pytest.approx(0.5, abs=0.01)
    assert found.effect.lower is not None and found.effect.lower > 0.3
    assert found.p is not None and found.p < 0.001
    assert "moderated t" in found.test


P50: dict[str, object] = {"p50": {"max_rise": "20%"}}


def on_cores(work: float | None, p50: float, count: int) -> list[Sample]:
    """Runs on a machine whose cores take `work` seconds for the fixed piece of work."""
    return [ran(trial(64, p50=p50 * scatter, work=work)) for scatter in (0.99, 1.0, 1.01)[:count]]


@pytest.mark.parametrize(
    ("work", "p50", "answer", "word"),
    [
        (1.0e-4, 0.030, Answer.FAIL, ""),  # the same cores
        (1.1e-4, 0.030, Answer.FAIL, ""),  # somewhat slower ones: 36 % remain
        (1.4e-4, 0.030, Answer.CANNOT_TELL, "40 % slower"),  # 7 % remain
        (None, 0.030, Answer.FAIL, ""),
        (1.0e-4, 0.020, Answer.PASS, ""),
        (1.4e-4, 0.020, Answer.PASS, ""),  # as fast on slower cores
        (0.7e-4, 0.020, Answer.CANNOT_TELL, "43 % faster"),  # a rise by 43 % would not be seen
        (0.9e-4, 0.021, Answer.CANNOT_TELL, "11 % faster"),  # 17 % remain, whose upper bound is above 20 %
        (None, 0.020, Answer.PASS, ""),
    ],
)
def test_what_the_speed_of_the_machine_explains_or_may_hide_is_not_decided(
    work: float | None, p50: float, answer: Answer, word: str
) -> None:
    found = only(P50, on_cores(1.0e-4, 0.020, 3), on_cores(work, p50, 3))
    assert found.answer is answer
    assert word in found.why


def test_a_capacity_that_fell_with_the_speed_of_the_machine_is_not_decided() -> None:
    def searches(capacity: int, work: float) -> list[Sample]:
        made = searched(capacity, capacity + 10)
        return [replace(made, trials=tuple(replace(each, work=work) for each in made.trials))] * 3

    assert only(DROP, searches(100, 1e-4), searches(60, 1e-4)).answer is Answer.FAIL
    found = only(DROP, searches(100, 1e-4), searches(60, 1.6e-4))
    assert found.answer is Answer.CANNOT_TELL and "slower" in found.why


def test_an_open_search_on_slower_cores_proves_no_drop() -> None:
    def at(made: Sample, work: float) -> Sample:
        return replace(made, trials=tuple(replace(each, work=work) for each in made.trials))

    before, none_passed = searched(100, 110), sample(trial(60, "failed"), trial(60, "failed"))
    assert only(DROP, [at(before, 1e-4)], [at(none_passed, 1e-4)]).answer is Answer.FAIL
    found = only(DROP, [at(before, 1e-4)], [at(none_passed, 1.6e-4)])
    assert found.answer is Answer.CANNOT_TELL and "60 % slower" in found.why


def test_records_measured_alternately_are_not_told_to_be() -> None:
    def side(name: str, work: float, p50: float) -> list[Sample]:
        pairs = [Pair("p", place, name) for place in (1, 2, 3)]
        return [replace(each, pair=pair) for each, pair in zip(on_cores(work, p50, 3), pairs, strict=True)]

    found = only(P50, side("a", 1.0e-4, 0.020), side("b", 1.4e-4, 0.030))
    assert found.answer is Answer.CANNOT_TELL and found.why.endswith("measure again")


def test_what_lies_near_the_limit_cannot_be_told_and_says_how_many_more_would() -> None:
    found = only(DROP, [searched(100, 110)], [searched(92, 101)])
    assert found.answer is Answer.CANNOT_TELL
    assert found.more is not None and found.more.current >= 1
    assert "would" in found.why


@pytest.mark.parametrize("name", ["engine", "budget", "processor"])
def test_another_condition_cannot_be_compared_unless_it_is_allowed(name: str) -> None:
    before = [searched(100, 110)] * 3
    now = [replace(each, conditions=CONDITIONS | {name: "another"}) for each in before]
    refused, allowed = only(DROP, before, now), only(DROP, before, now, (name,))
    assert refused.answer is Answer.CANNOT_TELL and name in refused.why
    assert allowed.answer is Answer.PASS


def test_several_seeds_on_both_sides_are_alike_one_other_seed_is_not() -> None:
    base = [searched(100, 110, conditions=CONDITIONS | {"seed": str(seed)}) for seed in (1, 2, 3)]
    other = [searched(100, 110, conditions=CONDITIONS | {"seed": str(seed)}) for seed in (7, 8, 9)]
    assert only(DROP, base, other).answer is Answer.PASS
    assert only(DROP, base[:1], other[:1]).answer is Answer.CANNOT_TELL


def test_a_search_whose_every_run_passed_proves_what_its_lower_end_proves() -> None:
    open_above = sample(trial(120), trial(120), lo=120)
    assert only(DROP, [searched(100, 110)], [open_above]).answer is Answer.PASS
    assert only(DROP, [open_above], [searched(50, 60)]).answer is Answer.FAIL
    found = only(DROP, [open_above], [searched(100, 110)])
    assert found.answer is Answer.CANNOT_TELL and "only one side" in found.why


def test_a_partial_record_is_left_out_and_alone_tells_nothing() -> None:
    partial = replace(searched(100, 110), partial="its command was interrupted", name="the third")
    verdict = judge(default_policy(), [searched(100, 110)], [partial], ())
    assert verdict.answer is Answer.CANNOT_TELL
    assert verdict.notes == ("the third is left out: its command was interrupted",)


def test_a_rule_that_was_asked_for_and_finds_no_record_cannot_tell() -> None:
    found = only({"drift": {"max": "1ms/min"}}, [], [searched(100, 110)])
    assert found.answer is Answer.CANNOT_TELL and "no run record" in found.why


def test_a_default_rule_that_finds_no_record_is_silent() -> None:
    verdict = judge(default_policy(), [searched(100, 110)] * 3, [searched(100, 110)] * 3, ())
    assert [each.rule.metric for each in verdict.findings] == ["mscs"]


def test_latency_that_doubles_fails_and_that_stays_passes() -> None:
    before = [ran(*(trial(64, p99=0.4 + 0.002 * k) for k in range(4)))]
    doubled = [ran(*(trial(64, p99=0.8 + 0.002 * k) for k in range(4)))]
    assert only(RISE, before, doubled).answer is Answer.FAIL
    assert only(RISE, before, before).answer is Answer.PASS


def test_frames_that_are_no_longer_answered_fail_the_latency_rule() -> None:
    silent = [ran(trial(64, no_answer=True))]
    assert only(RISE, [ran(trial(64, p99=0.4))], silent).answer is Answer.FAIL


def test_latency_is_compared_at_the_same_number_of_sessions_only() -> None:
    before = [ran(trial(64, p99=0.4)), ran(trial(128, p99=0.9))]
    found = only(RISE, before, [ran(trial(100, p99=0.4))])
    assert found.answer is Answer.CANNOT_TELL and "nothing like it" in found.why


@pytest.mark.parametrize(
    ("share", "answer"),
    [
        (Share(0.0, 0.0, 0.003), Answer.PASS),
        (Share(0.05, 0.03, 0.08), Answer.FAIL),
        (Share(0.008, 0.004, 0.02), Answer.CANNOT_TELL),
    ],
)
def test_the_miss_rate_of_one_run_is_judged_by_its_own_interval(share: Share, answer: Answer) -> None:
    assert only({"miss_rate": {"max": "1%"}}, [], [ran(trial(64, missed=share))]).answer is answer


@pytest.mark.parametrize(("slope", "answer"), [(0.2, Answer.PASS), (5.0, Answer.FAIL), (0.9, Answer.CANNOT_TELL)])
def test_drift_is_judged_by_both_ends(slope: float, answer: Answer) -> None:
    ends = [each / 60_000.0 for each in (slope, slope - 0.5, slope + 0.5)]
    assert only({"drift": {"max": "1ms/min"}}, [], [ran(trial(64, slope=Slope(*ends)))]).answer is answer


def test_a_single_collapse_fails_none_and_is_named() -> None:
    found = only({"collapse": "none"}, [], [ran(trial(64), trial(64, "failed", collapsed=True, collapse="stall"))])
    assert found.answer is Answer.FAIL and "1 of 2 collapsed (stall)" in found.why


def test_no_collapse_in_ten_does_not_prove_less_than_a_tenth() -> None:
    found = only({"collapse": {"max": "10%"}}, [], [ran(*[trial(64)] * 10)])
    assert found.answer is Answer.CANNOT_TELL
    assert found.more is not None and found.more.current == 26  # 36 trials: 1 - 0.025^(1/36) <= 10 %


@pytest.mark.parametrize(
    ("seen", "answer"),
    [
        (Forecast(None), Answer.PASS),
        (Forecast(3600.0, 3000.0, 4000.0), Answer.PASS),
        (Forecast(600.0, 500.0, 700.0), Answer.FAIL),
        (Forecast(1800.0, 1500.0, 2000.0), Answer.CANNOT_TELL),
        (None, Answer.CANNOT_TELL),
    ],
)
def test_the_earliest_forecast_collapse_is_judged_by_its_interval(seen: Forecast | None, answer: Answer) -> None:
    assert only({"forecast": {"min": "30m"}}, [], [ran(trial(64, forecast=seen))]).answer is answer


@pytest.mark.parametrize(("least", "answer"), [(90, Answer.PASS), (110, Answer.FAIL), (105, Answer.CANNOT_TELL)])
def test_a_least_capacity_is_judged_by_the_confirmed_interval(least: int, answer: Answer) -> None:
    assert only({"mscs": {"min": least}}, [], [searched(100, 110)]).answer is answer


def test_pairs_are_compared_pair_by_pair() -> None:
    before, now = alternating(150.0, 150.0, 6, np.random.default_rng(4), day_sd=0.3)
    assert only(DROP, before, now).test == "paired moderated t"
    assert only(DROP, before, now).answer is Answer.PASS
    # without the pairs the days drown it
    apart = [[replace(each, pair=None) for each in side] for side in (before, now)]
    assert only(DROP, *apart).answer is Answer.CANNOT_TELL


def test_a_pair_of_which_one_side_proves_nothing_is_left_out_whole() -> None:
    before, now = alternating(150.0, 150.0, 3, np.random.default_rng(4), day_sd=0.3)
    before[1] = replace(before[1], partial="none of its runs proves anything")
    found = only(DROP, before, now)
    assert (found.test, found.records) == ("paired moderated t", (2, 2))


def test_exit_codes_are_those_of_the_definition() -> None:
    assert [exit_code(answer, strict=False) for answer in Answer] == [0, 1, 3]
    assert exit_code(Answer.CANNOT_TELL, strict=True) == 1
    assert overall(()) is Answer.CANNOT_TELL


@given(st.integers(8, 2000), st.integers(1, 5), st.integers(1, 5))
def test_the_knee_lies_between_what_passes_and_what_fails(lo: int, passed: int, failed: int) -> None:
    hi = math.ceil(lo * 1.1)
    found = knee([trial(lo)] * passed + [trial(hi, "failed")] * failed)
    assert found is not None
    assert math.log(lo) - 2 * RUN_SD < found.value < math.log(hi) + 2 * RUN_SD
    assert 0.0 < found.sd < 0.1


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.lists(st.floats(-1, 1), min_size=1, max_size=6))
def test_a_change_turns_round_with_its_sides_and_its_interval_holds_it(a: list[float], b: list[float]) -> None:
    sides = [[Value(each, 0.002) for each in side] for side in (a, b)]
    there, back = contrast(sides[0], sides[1], 4.0), contrast(sides[1], sides[0], 4.0)
    assert there.value == pytest.approx(-back.value)
    assert there.error == pytest.approx(back.error)
    low, high = there.bounds()
    assert low <= there.value <= high


@given(st.floats(-0.1, 0.4), st.integers(1, 6))
def test_a_recommended_number_of_records_is_never_more_than_asked_for(value: float, count: int) -> None:
    change = paired([Value(value, 0.002)] * count, 4.0)
    wanted = more(change, 0.1625, 0.02, 4.0)
    assert wanted is None or 1 <= wanted.current <= 20
