"""The ledger equals the engine's own count after every single frame."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.engine
@pytest.mark.parametrize("policy", ["unbounded", "window:64", "window:64+16", "recycle:128"])
def test_ledger_and_scheduler_agree(policy: str):
    script = Path(__file__).with_name("ledger_in_process.py")
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.ledger_in_process", policy],
        cwd=script.parents[2],
        capture_output=True,
        text=True,
        timeout=200,
    )
    rows = [json.loads(line.removeprefix("LEDGER ")) for line in done.stdout.splitlines() if line.startswith("LEDGER ")]
    assert len(rows) == 4 * 12 + 2, done.stderr[-2000:]
    assert [row for row in rows if row["ledger"] != row["engine"]] == []
    assert {row["sampled"] for row in rows} == {1, 4}
    assert any(row["rollovers"] for row in rows) == (policy != "unbounded")
