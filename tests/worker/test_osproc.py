"""Killing a tree takes everything in it, wherever it hid."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from metrobench.worker import osproc

FAMILY = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
print("ready", flush=True)
time.sleep(300)
"""


@pytest.fixture
def orphanage() -> Iterator[None]:
    """Orphans come to this process while the test runs."""
    osproc.adopt_orphans()
    yield
    osproc.adopt_orphans(False)


def test_a_tree_is_killed_with_its_runaways(orphanage: None):
    root = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True)
    assert root.stdout is not None
    assert root.stdout.readline() == b"ready\n"
    family = osproc.tree(root.pid)
    assert len(family) == 3
    status = osproc.kill_tree(root.pid)
    root.stdout.close()
    assert status is not None
    assert osproc.describe_status(status) == "was killed by SIGKILL"
    assert not family & osproc.process_table().keys()


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "ended with exit code 0"), (3 << 8, "ended with exit code 3"), (signal.SIGSEGV, "was killed by SIGSEGV")],
)
def test_a_status_in_words(status: int, words: str):
    assert osproc.describe_status(status) == words


def test_figures_of_a_process():
    sum(range(3_000_000))
    cpu, rss = osproc.cpu_seconds(os.getpid()), osproc.rss_bytes(os.getpid())
    assert cpu is not None
    assert rss is not None
    assert cpu > 0
    assert rss > 1e6


def test_figures_of_a_process_that_is_gone_are_absent():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert osproc.cpu_seconds(gone.pid) is None
    assert osproc.rss_bytes(gone.pid) is None
