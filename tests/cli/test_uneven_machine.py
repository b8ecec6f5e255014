"""A search on a machine whose speed changes says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from metrobench.cli.main import cli
from metrobench.measure.warnings import Warn
from tests.cli.searches import URL, VirtualRuns


@pytest.mark.parametrize(("works", "said"), [((1.0e-4, 1.4e-4), True), ((1.0e-4, 1.1e-4), False), ((), False)])
def test_a_search_tells_of_a_machine_whose_speed_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: tuple[float, ...], said: bool
):
    VirtualRuns(capacity=40, works=works).install(monkeypatch)
    words = ["capacity", "--guess", "40", "--endpoint", URL, "--model", "smoke", "--json", "--out", str(tmp_path)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    found = {warning["code"] for warning in json.loads(done.stdout)["warnings"]}
    assert (Warn.MACHINE_UNEVEN in found) == said
