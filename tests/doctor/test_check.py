from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metrobench.doctor.check import PACING, Check, Status, first_of, is_sound, trusted_sessions, verdict
from metrobench.report.doctor import examination

TEXT = st.text(st.characters(codec="ascii", exclude_categories=("C",)), min_size=1, max_size=200)
NAMES = st.sampled_from(["clock", PACING, "disk"])
CHECKS = st.lists(st.builds(Check, name=NAMES, status=st.sampled_from(Status), finding=TEXT, advice=TEXT), min_size=1)


def pacing(trusted: int) -> Check:
    return Check(PACING, Status.OK, "up to some", figures={"trusted": trusted})


def test_the_gravest_rule_that_holds_decides():
    rules = [(False, Status.FAIL, "a"), (True, Status.WARN, "b"), (True, Status.FAIL, "c")]
    assert first_of("x", rules, "found", size=3) == Check("x", Status.WARN, "found", "b", {"size": 3})


def test_no_rule_holds_and_all_is_well():
    assert first_of("x", [(False, Status.FAIL, "a")], "found") == Check("x", Status.OK, "found")


def test_warnings_and_what_is_not_visible_do_not_make_a_machine_unsound():
    assert is_sound([Check("a", Status.WARN, "w"), Check("b", Status.SKIPPED, "s"), pacing(50)])


def test_one_failure_does():
    assert not is_sound([pacing(1000), Check("disk", Status.FAIL, "full")])


def test_the_verdict_names_the_sessions():
    assert verdict([pacing(500)]) == "fit to measure: trust this machine with up to 500 sessions"


def test_the_verdict_counts_the_warnings():
    assert verdict([pacing(500), Check("a", Status.WARN, "w")]).endswith("(1 warning below)")


def test_the_verdict_names_the_first_failure_and_counts_the_rest():
    checks = [pacing(500), Check("disk", Status.FAIL, "3 B free"), Check("gpu", Status.FAIL, "busy")]
    assert verdict(checks) == "not fit to measure: disk, 3 B free (1 more below)"


def test_without_a_pacing_test_no_number_is_promised():
    checks = [Check("clock", Status.OK, "tsc")]
    assert trusted_sessions(checks) is None
    assert "pacing was not tested" in verdict(checks)


@given(CHECKS)
def test_whatever_was_found_fits_80_columns_and_the_verdict_comes_first(checks: list[Check]):
    lines = examination(checks).splitlines()
    assert all(len(line) <= 80 for line in lines if " " in line.strip())
    assert lines[0].startswith(("fit", "not fit", "no reason"))
