"""The ledger equals the engine's own count after every single frame, in a pool of just the sessions' peaks; the stock
engine dies of the same sessions."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

POLICIES = ("unbounded", "window:64", "window:64+16", "recycle:128")
STOCK = "unguarded window:64"

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@dataclass
class Told:
    """Rows of each policy's run, and what all runs said on stderr."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    errors: str = ""


@pytest.fixture(scope="module")
def told() -> Told:
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.ledger_in_process", *POLICIES, STOCK],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=560,
    )
    told = Told(errors=done.stderr[-2000:])
    for line in done.stdout.splitlines():
        if line.startswith("LEDGER "):
            row = json.loads(line.removeprefix("LEDGER "))
            if "policy" in row:
                rows = told.rows.setdefault(row["policy"], [])
            else:
                rows.append(row)
    return told


@pytest.mark.parametrize("policy", POLICIES)
def test_ledger_and_scheduler_agree(policy: str, told: Told):
    assert policy in told.rows, told.errors
    *rows, last = told.rows[policy]
    assert [row for row in rows if row.get("ledger") != row.get("engine") or "failed" in row] == [], told.errors
    assert (last["left"], last["preemptions"]) == (0, 0), last
    assert last["longest"] == last["in_flight"], "fills and rollovers enter in chunks of I tokens"
    assert {row["sampled"] for row in rows} == {1, 4}
    through = {row["session"]: row["tokens"] for row in rows}
    rolled = {row["session"]: row["rollovers"] for row in rows}
    assert len(through) == 8
    if policy == "unbounded":
        assert set(rolled.values()) == {0}
    else:
        assert min(through.values()) >= 10 * 256
        assert min(rolled.values()) >= 9
        assert max(row["held"] for row in rows) <= last["peak"]


def test_the_stock_engine_dies_of_the_same_sessions(told: Told):
    """The reason for rolling over and for the guard, which have lost their purpose once vLLM lives on here."""
    assert STOCK in told.rows, told.errors
    *rows, last = told.rows[STOCK]
    assert "could not broadcast" in last["died"]
    assert [row for row in rows if row["ledger"] != row["engine"]] == []
    assert 200 < max(row["tokens"] for row in rows) <= 256
