"""The Triton rewrite and vLLM's Triton attention kernel over compacted tables, interpreted on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def figures() -> Any:
    """What interpreted.py measured."""
    root = Path(__file__).parents[2]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "tests.kvwindow.interpreted"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_device_rewrite_equals_the_numpy_rewrite(figures: Any) -> None:
    assert figures["paths"]["wrong"] == []
    assert figures["paths"]["split"] > figures["paths"]["cases"] / 4


@pytest.mark.parametrize("mode", ["aligned", "exact"])
def test_vllm_s_kernel_sees_the_mask_and_no_freed_block(figures: Any, mode: str) -> None:
    assert len(figures[mode]) >= 4
    assert max(figures[mode]) < 1e-5
