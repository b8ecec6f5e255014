"""The kernels of a stand-in, compiled before it runs: those that its engine will ask for, and no other."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from metrobench.policy import parse_policy
from metrobench.profiles import load_profile, profile_names
from metrobench.worker import preload
from metrobench.worker.spec import STANDIN, WorkerSpec
from metrobench.worker.warmup import compile_kernels, matrices
from tests.kvwindow.engine import forked
from tests.worker.core_engine import CoreEngine


def asked() -> tuple[int, set[tuple[int, int]]]:
    """How many runs compiled two matrices for 5 numbers of tokens, and the matrices that an engine asks for."""
    assert isinstance(preload.load(), str)
    from vllm import _custom_ops as ops

    runs = compile_kernels([(8, 4), (4, 8)], 5)
    make, seen = ops.create_onednn_mm, set()

    def note(weight: Any, *rest: Any) -> Any:
        seen.add((weight.shape[1], weight.shape[0]))
        return make(weight, *rest)

    ops.create_onednn_mm = note
    smoke, policy = load_profile("smoke"), parse_policy("unbounded")
    with tempfile.TemporaryDirectory() as folder:
        CoreEngine(WorkerSpec(smoke, policy, 4, 4096, STANDIN, 1, None, None, Path("/dev/null")), Path(folder))
    return runs, seen


@pytest.mark.parametrize("name", profile_names())
def test_every_matrix_of_a_layer_is_there_once(name: str) -> None:
    shape = load_profile(name).stand_in
    found = matrices(shape)
    assert len(found) == len(set(found))
    assert {shape.hidden, shape.intermediate, shape.heads * shape.head_dim} == {inputs for _, inputs in found}


@pytest.mark.engine
def test_the_engine_asks_for_these_and_for_the_vocabulary(vllm: None) -> None:
    runs, seen = forked(asked)
    if not runs:
        pytest.skip("this processor has no oneDNN path in vLLM: nothing is compiled")
    shape = load_profile("smoke").stand_in
    assert runs == 10
    assert seen == {*matrices(shape), (shape.vocab, shape.hidden)}
