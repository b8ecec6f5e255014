"""The wheel in an empty environment: the client alone, with its data, without torch."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.servers.truth import Script, TruthServer

ROOT = Path(__file__).resolve().parent.parent
INSTALL_TIMEOUT = 600


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment that holds nothing but the built wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    make = [*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(make, check=True, timeout=INSTALL_TIMEOUT)
    wheel = next(folder.glob("metrobench-*.whl"))
    install = [*pip, "--python", str(python), "install", "--no-compile", str(wheel)]
    subprocess.run(install, check=True, timeout=INSTALL_TIMEOUT)
    return python


@pytest.mark.timeout(2 * INSTALL_TIMEOUT)
def test_the_wheel_brings_profiles_workloads_and_audio(installed: Path, tmp_path: Path) -> None:
    script = (
        "import importlib.util as u\n"
        "assert u.find_spec('torch') is None and u.find_spec('vllm') is None\n"
        "from metrobench.profiles import load_profile, profile_names\n"
        "from metrobench.corpus.manifest import default_clips, load_manifest, verify\n"
        "from metrobench.resources import data_folder\n"
        "assert 'minicpm-o' in profile_names() and load_profile('smoke')\n"
        "from metrobench.admission.workload import load_workload, workload_names\n"
        "assert 'steady' in workload_names() and load_workload('churn')\n"
        "assert all(clip.is_file() for clip in default_clips())\n"
        "folder = data_folder('audio_corpus')\n"
        "assert verify(folder, load_manifest(folder)) == []\n"
        "assert '_data' in str(folder)\n"
    )
    subprocess.run([str(installed), "-c", script], check=True, cwd=tmp_path, timeout=60)


@pytest.mark.timeout(2 * INSTALL_TIMEOUT)
def test_the_client_alone_says_what_the_engine_needs(installed: Path, tmp_path: Path) -> None:
    command = [str(installed.parent / "metrobench"), "check", "--model", "smoke", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 4
    assert "metrobench[cpu]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(2 * INSTALL_TIMEOUT)
def test_the_client_alone_can_examine_its_machine(installed: Path, tmp_path: Path) -> None:
    command = [str(installed.parent / "metrobench"), "doctor", "--quick", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode in (0, 3)
    assert checks["packages"]["status"] == "ok"
    assert "endpoints only" in checks["vllm"]["finding"]


@pytest.mark.timeout(2 * INSTALL_TIMEOUT)
def test_the_client_alone_checks_an_endpoint_and_shows_what_is_stored(installed: Path, tmp_path: Path) -> None:
    with TruthServer(Script(unit=0.5, first_ready=0.5)) as server:
        asked = {
            f"check --model smoke --endpoint {server.url}": "of 5 frames of 500 ms",
            f"run --model smoke --sessions 4 --endpoint {server.url} --dry-run": "nothing was started",
            "report": "of 5 frames of 500 ms",
            "profiles": "voxtral-realtime",
            "corpus list": "default",
            "corpus verify": "have the right checksum",
        }
        for arguments, said in asked.items():
            command = [str(installed.parent / "metrobench"), *arguments.split()]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
            assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done
            assert said in done.stdout, done


def test_an_editable_install_finds_the_folders_of_the_checkout() -> None:
    from metrobench.resources import data_folder

    assert data_folder("profiles") == ROOT / "profiles"
