"""The kernels of a stand-in, compiled before it runs: those that its engine will ask for, and no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from metrobench.profiles import load_profile, profile_names
from metrobench.worker.warmup import matrices

ASK = """
import json, sys, tempfile
from pathlib import Path
from metrobench.policy import parse_policy
from metrobench.profiles import load_profile
from metrobench.worker import preload
from metrobench.worker.spec import STANDIN, WorkerSpec
from metrobench.worker.warmup import compile_kernels
assert isinstance(preload.load(), str)
from vllm import _custom_ops as ops
print("SEEN", json.dumps(compile_kernels([(8, 4), (4, 8)], 5)))
made = ops.create_onednn_mm
seen = []
def note(weight, *rest):
    seen.append((weight.shape[1], weight.shape[0]))
    return made(weight, *rest)
ops.create_onednn_mm = note
from tests.worker.ledger_in_process import CoreEngine
spec = WorkerSpec(load_profile("smoke"), parse_policy("unbounded"), 4, 4096, STANDIN, 1, None, None, Path("/dev/null"))
with tempfile.TemporaryDirectory() as folder:
    CoreEngine(spec, Path(folder))
print("SEEN", json.dumps(sorted(set(seen))))
"""


@pytest.mark.parametrize("name", profile_names())
def test_every_matrix_of_a_layer_is_there_once(name: str) -> None:
    shape = load_profile(name).stand_in
    found = matrices(shape)
    assert len(found) == len(set(found))
    assert {shape.hidden, shape.intermediate, shape.heads * shape.head_dim} == {inputs for _, inputs in found}


@pytest.mark.engine
def test_the_engine_asks_for_these_and_for_the_vocabulary() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=200
    )
    lines = [json.loads(line.removeprefix("SEEN ")) for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    assert len(lines) == 2, done.stderr[-2000:]
    runs, asked = lines
    if not runs:
        pytest.skip("this processor has no oneDNN path in vLLM: nothing is compiled")
    shape = load_profile("smoke").stand_in
    assert runs == 10
    assert {tuple(each) for each in asked} == {*matrices(shape), (shape.vocab, shape.hidden)}
