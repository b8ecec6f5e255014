"""The ledger equals the engine's own count after every single frame, in a pool of just the sessions' peaks."""

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
    lines = [line.removeprefix("LEDGER ") for line in done.stdout.splitlines() if line.startswith("LEDGER ")]
    *rows, last = map(json.loads, lines)
    assert [row for row in rows if row.get("ledger") != row.get("engine") or "failed" in row] == [], done.stderr[-2000:]
    assert last == {"left": 0}
    assert {row["sampled"] for row in rows} == {1, 4}
    through = {row["session"]: row["tokens"] for row in rows}
    rolled = {row["session"]: row["rollovers"] for row in rows}
    assert len(through) == 8
    if policy == "unbounded":
        assert set(rolled.values()) == {0}
    else:
        assert min(through.values()) >= 10 * 256
        assert min(rolled.values()) >= 9
