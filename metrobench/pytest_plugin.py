"""For a team's own test suite: a fixture that measures and reads records.

@pytest.mark.metrobench(model="minicpm-o", effort="quick")
def test_forty_conversations(metrobench):
    result = metrobench.capacity()
    assert result.mscs.lo >= 40
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from metrobench.gate.findings import Verdict as Judged
    from metrobench.measure.limits import LimitedBy
    from metrobench.measure.verdict import Verdict
    from metrobench.records import Record
    from metrobench.report.stored import Stored
    from metrobench.search.mscs import Mscs

MARKER = "metrobench"
INI = "metrobench_out"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where records go."""
    parser.addini(
        INI, "Folder of the records that the metrobench fixture makes (default: a temporary one).", default=""
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line("markers", f"{MARKER}(**options): options of every measurement of this test that has them")


@dataclass(frozen=True)
class Result:
    """One record."""

    path: Path
    """Its folder."""
    record: Record = field(repr=False)
    stored: Stored = field(repr=False)

    @property
    def mscs(self) -> Mscs:
        """What a capacity search found. Fails the test where this record holds none."""
        from msgspec import convert

        from metrobench.search.mscs import Mscs

        return convert(self._found("mscs"), Mscs)

    @property
    def limited_by(self) -> LimitedBy:
        """What the capacity is limited by. Fails the test where this record holds no search."""
        from msgspec import convert

        from metrobench.measure.limits import LimitedBy

        return convert(self._found("limited_by"), LimitedBy)

    @property
    def verdict(self) -> Verdict:
        """Every number of the last run (metrobench.measure.verdict). Fails the test where nothing was measured."""
        from msgspec import convert

        from metrobench.measure.verdict import Verdict

        if not self.record.probes:
            pytest.fail(f"nothing was measured in {self.path}", pytrace=False)
        return convert(self.record.probes[-1].verdict, Verdict)

    def _found(self, name: str) -> Any:
        found = (self.record.result or {}).get(name)
        if found is None:
            pytest.fail(f"{self.path} is a {self.record.kind} record without {name}", pytrace=False)
        return found


@dataclass
class Metrobench:
    """What the fixture hands out. Options are those of the command line: `max_time="5m"`, `yes=True`."""

    out: Path
    """Where records are made."""
    options: dict[str, Any]
    """Of the marker."""
    properties: list[tuple[str, object]]
    """Of the test, for JUnit XML."""

    def capacity(self, **options: Any) -> Result:
        """`metrobench capacity`. A search that tells nothing fails the test."""
        result = self._measure("capacity", options)
        self.properties.append(("metrobench.mscs", f"[{result.mscs.lo}, {result.mscs.hi}]"))
        return result

    def run(self, sessions: int, **options: Any) -> Result:
        """`metrobench run`. A run that proves nothing fails the test."""
        result = self._measure("run", {"sessions": sessions, **options})
        self.properties.append(("metrobench.miss_rate", result.verdict.misses.rate))
        return result

    def check(self, **options: Any) -> Result:
        """`metrobench check`: one session, end to end."""
        return self._measure("check", options)

    def load(self, path: str | Path) -> Result:
        """A record that is there already. Raises UsageError."""
        from metrobench.report.stored import find, open_record

        stored = open_record(find(Path(path))[-1])
        return Result(stored.path, stored.record, stored)

    def gate(
        self, *results: Result, baseline: str | Path, rules: dict[str, Any] | None = None, allow: tuple[str, ...] = ()
    ) -> Judged:
        """Results against a baseline, as `metrobench gate` judges them. Raises UsageError."""
        from metrobench.gate.judge import judge
        from metrobench.gate.rules import default_policy, parse_policy
        from metrobench.report.baseline import samples_of
        from metrobench.report.observe import observe

        policy = default_policy() if rules is None else parse_policy(rules, "the rules")
        return judge(policy, samples_of(Path(baseline)), [observe(each.stored) for each in results], allow)

    def _measure(self, command: str, options: dict[str, Any]) -> Result:
        before = set(self.out.glob("*/run.json"))
        marked = {name: value for name, value in self.options.items() if name in _known(command)}
        code, said = _call([command, *_arguments({**marked, **options}), "--quiet", "--out", str(self.out)])
        made = sorted(set(self.out.glob("*/run.json")) - before)
        if code or not made:
            pytest.fail(f"metrobench {command} ended with exit code {code}: {said}", pytrace=False)
        return self.load(made[-1])


@pytest.fixture
def metrobench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Metrobench:
    """Measures, reads records and judges them; the marker `metrobench` holds options for all measurements of a test."""
    folder = str(request.config.getini(INI))
    out = request.config.rootpath / folder if folder else tmp_path_factory.mktemp("metrobench")
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        options |= marker.kwargs
    return Metrobench(out, options, request.node.user_properties)


def _known(command: str) -> set[str]:
    """Names of a command's options, so that a marker may hold those of several commands."""
    from importlib import import_module

    found = getattr(import_module(f"metrobench.cli.{command}"), command)
    names = [name for parameter in found.params for name in (*parameter.opts, parameter.name)]
    return {name.lstrip("-").replace("-", "_") for name in names}


def _arguments(options: dict[str, Any]) -> list[str]:
    """Options as typed. None and False are left out."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        words += [] if value is True else [str(value)]
    return words


def _call(arguments: list[str]) -> tuple[int, str]:
    """The command in a process of its own: its exit code, its last words."""
    done = subprocess.run(
        [sys.executable, "-m", "metrobench", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    said = " ".join(line.strip() for line in (done.stderr or done.stdout).strip().splitlines()[-2:])
    return done.returncode, said.removeprefix("metrobench: ")
