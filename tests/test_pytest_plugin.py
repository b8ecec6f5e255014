"""The plugin, in a suite of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report import made

pytest_plugins = ["pytester"]
LOADED = ("-p", "no:metrobench", "-p", "metrobench.pytest_plugin", "-p", "no:cacheprovider")
VIRTUAL = """
    import pytest
    from click.testing import CliRunner
    import metrobench.pytest_plugin as plugin
    from metrobench.cli.main import cli
    from tests.cli.searches import URL, VirtualRuns

    @pytest.fixture(autouse=True)
    def virtual(monkeypatch):
        VirtualRuns(100).install(monkeypatch)
        def call(arguments):
            more = ["--endpoint", URL, *(["--guess", "100"] if "capacity" in arguments else [])]
            done = CliRunner().invoke(cli, [*arguments, *more])
            return done.exit_code, done.output
        monkeypatch.setattr(plugin, "_call", call)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return pytester


def test_a_measurement_is_asserted_on(suite: pytest.Pytester):
    suite.makeconftest(VIRTUAL)
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.metrobench(model="smoke", effort="quick")
        def test_enough(metrobench):
            result = metrobench.capacity()
            assert result.mscs.lo >= 40
            assert metrobench.run(sessions=20, duration="15s").verdict.outcome == "passed"

        @pytest.mark.metrobench(model="smoke")
        def test_too_few(metrobench):
            assert metrobench.capacity(effort="quick").mscs.lo >= 4000
        """
    )
    done = suite.runpytest_subprocess(*LOADED, "--strict-markers", "--junitxml=out.xml")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["E *assert * >= 4000"])
    assert 'name="metrobench.mscs" value="[' in (suite.path / "out.xml").read_text()


def test_records_are_read_judged_and_kept_where_the_settings_say(suite: pytest.Pytester):
    folder = made.search(suite.path / "base")
    suite.makeconftest(VIRTUAL)
    suite.makeini("[pytest]\nmetrobench_out = kept\n")
    suite.makepyfile(
        f"""
        def test_stored(metrobench):
            stored = metrobench.load({str(folder)!r})
            assert 30 <= stored.mscs.lo < stored.mscs.hi <= 50
            assert stored.limited_by.limit
            verdict = metrobench.gate(stored, baseline={str(folder.parent)!r}, rules={{"mscs": {{"min": 20}}}})
            assert verdict.answer == "pass"

        def test_kept(metrobench):
            metrobench.capacity(model="smoke")
        """
    )
    suite.runpytest_subprocess(*LOADED).assert_outcomes(passed=2)
    assert len(list((suite.path / "kept").glob("*/run.json"))) == 1


def test_a_command_that_fails_says_why_without_a_traceback(suite: pytest.Pytester):
    suite.makepyfile(
        """
        def test_wrong(metrobench):
            metrobench.capacity(model="nothing-like-it")
        """
    )
    done = suite.runpytest_subprocess(*LOADED)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["metrobench capacity ended with exit code 2: *nothing-like-it*"])
    done.stdout.no_fnmatch_line("*Traceback*")


def test_a_number_that_a_record_lacks_fails_the_test(suite: pytest.Pytester):
    folder = made.run(suite.path / "runs")
    suite.makepyfile(
        f"""
        def test_no_search(metrobench):
            metrobench.load({str(folder)!r}).mscs
        """
    )
    done = suite.runpytest_subprocess(*LOADED)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*is a run record without mscs"])
