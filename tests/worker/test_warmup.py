"""What a stand-in's engine has before it serves: the kernels that it will ask for, and memory that stays."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from metrobench.policy import parse_policy
from metrobench.profiles import load_profile, profile_names
from metrobench.worker import preload
from metrobench.worker.launcher import MALLOC
from metrobench.worker.spec import STANDIN, WorkerSpec
from metrobench.worker.warmup import ROWS, compile_kernels, matrices
from tests.kvwindow.engine import forked
from tests.worker.core_engine import CoreEngine


def asked() -> tuple[int, set[tuple[int, int]], list[int], int]:
    """How many runs compiled two matrices for 5 and 3 numbers of rows, the matrices that an engine asks for, bytes of
    the large tables that it fills with ones, and what the logits of a busy step take."""
    assert isinstance(preload.load(), str)
    import torch
    from vllm import _custom_ops as ops

    runs = compile_kernels([(8, 4, 5), (4, 8, 3)])
    make, seen = ops.create_onednn_mm, set()

    def note(weight: Any, *rest: Any) -> Any:
        seen.add((weight.shape[1], weight.shape[0]))
        return make(weight, *rest)

    ones, touched = torch.ones, []

    def note_size(*size: Any, **options: Any) -> Any:
        table = ones(*size, **options)
        if table.nbytes >= 1 << 20:
            touched.append(table.nbytes)
        return table

    ops.create_onednn_mm, torch.ones = note, note_size
    smoke, policy = load_profile("smoke"), parse_policy("unbounded")
    with tempfile.TemporaryDirectory() as folder:
        CoreEngine(WorkerSpec(smoke, policy, 200, 8192, STANDIN, 1, None, None, Path("/dev/null")), Path(folder))
    from metrobench.worker.warm_worker import COPIES, SESSIONS

    return runs, seen, touched, 4 * COPIES * SESSIONS * smoke.stand_in.vocab


@pytest.mark.parametrize("name", profile_names())
def test_every_matrix_of_a_layer_is_there_once(name: str) -> None:
    shape = load_profile(name).stand_in
    found = matrices(shape)
    assert len(found) == len(set(found))
    assert {shape.hidden, shape.intermediate, shape.heads * shape.head_dim} == {inputs for _, inputs, _ in found}
    assert (shape.vocab, shape.hidden, ROWS) in found


@pytest.mark.engine
def test_the_engine_asks_for_these_and_has_the_memory_of_a_busy_step(vllm: None) -> None:
    runs, seen, touched, busy = forked(asked)
    assert touched == [busy]
    if not runs:
        pytest.skip("this processor has no oneDNN path in vLLM: nothing is compiled")
    assert runs == 8
    assert seen == {(outputs, inputs) for outputs, inputs, _ in matrices(load_profile("smoke").stand_in)}


TAKE = """
import resource, sys
from ctypes import CDLL, c_size_t, c_void_p, memset
libc = CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = c_void_p, [c_size_t], [c_void_p]
def take(megabytes):
    block = libc.malloc(megabytes << 20)
    memset(block, 1, megabytes << 20)
    libc.free(block)
take(400)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    take(60)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_of_any_size_that_was_used_once_stays_with_a_worker() -> None:
    def faults(more: dict[str, str]) -> int:
        found = subprocess.run([sys.executable, "-c", TAKE], env=more, capture_output=True, text=True, check=True)
        return int(found.stdout)

    assert faults(MALLOC) < 100
    if faults({}) < 100:
        pytest.skip("this allocator gives nothing back to the kernel")
