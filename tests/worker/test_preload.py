"""What the fork server changes in torch changes cost, not results."""

import subprocess
import sys

import pytest

from tests.worker.conftest import Launch

pytestmark = pytest.mark.engine

ZEROS = """
import resource
import torch
from metrobench.worker import preload
preload.leave_large_zeros_untouched()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
large = torch.zeros(1 << 28, dtype=torch.int8, device=torch.device("cpu"))
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 64 * 1024, grown
assert large.shape == (1 << 28,) and large.dtype is torch.int8
assert large.data_ptr() % 64 == 0
assert int(large[::4096].sum()) == 0 and int(large[-1]) == 0
large[5] = 7
assert int(large[:10].sum()) == 7
small = torch.zeros(5, dtype=torch.int8)
for other in (torch.zeros(3, 4), torch.zeros((2, 2), dtype=torch.int8), torch.zeros(1 << 25), small):
    assert float(other.sum()) == 0.0
assert torch.zeros(1 << 25, dtype=torch.int8, requires_grad=False).numel() == 1 << 25
"""


def test_large_zeros_are_zero_and_cost_no_memory():
    done = subprocess.run([sys.executable, "-c", ZEROS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_pool_takes_memory_only_as_it_is_used(launch: Launch):
    def resident(pool: int) -> float:
        worker = launch(pool_tokens=pool)
        samples: list[dict[str, float | None]] = []
        while not samples:
            samples = worker.telemetry()
        worker.kill()
        return samples[-1]["engine_rss"] or 0.0

    small, large = resident(4096), resident(500_000)
    assert large - small < 200e6, "500,000 tokens are 512 MB of KV cache"
