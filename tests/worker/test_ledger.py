"""The ledger equals the engine's own count after every single frame, in a pool of just the sessions' peaks; the stock
engine dies of the same sessions."""

import pytest

from tests.kvwindow.engine import forked
from tests.worker.core_engine import UNGUARDED, ledger

POLICIES = ("unbounded", "window:64", "window:64+16", "recycle:128")

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("policy", POLICIES)
def test_ledger_and_scheduler_agree(policy: str, vllm: None):
    *rows, last = forked(ledger, policy)
    assert [row for row in rows if row.get("ledger") != row.get("engine") or "failed" in row] == []
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


def test_the_stock_engine_dies_of_the_same_sessions(vllm: None):
    """The reason for rolling over and for the guard, which have lost their purpose once vLLM lives on here."""
    *rows, last = forked(ledger, UNGUARDED + "window:64")
    assert "could not broadcast" in last["died"]
    assert [row for row in rows if row["ledger"] != row["engine"]] == []
    assert 200 < max(row["tokens"] for row in rows) <= 256
