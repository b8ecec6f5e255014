from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metrobench.errors import UsageError
from metrobench.load import spool as module
from metrobench.load.spec import LoadSpec
from metrobench.load.spool import Spool, read_facts, reserve
from metrobench.measure.facts import FRAME_DTYPE, SessionFacts


@pytest.fixture
def spec(tmp_path: Path) -> LoadSpec:
    return LoadSpec(
        protocol="realtime",
        url="ws://h/",
        sessions=3,
        budget=1.0,
        unit=1.0,
        first_ready=1.0,
        seed=1,
        clips=(Path("a"),),
        cut_frames=1,
        frames=4,
        max_frames=6,
        spool=tmp_path / "deep" / "spool",
    )


def test_fresh_spool_holds_nothing(spec: LoadSpec) -> None:
    reserve(spec)
    facts = read_facts(spec.spool)
    assert len(facts.frames) == 0
    assert facts.frames.dtype == FRAME_DTYPE
    assert [session.session for session in facts.sessions] == [0, 1, 2]
    assert [session.phase for session in facts.sessions] == pytest.approx(spec.schedule().phases.tolist())
    assert (facts.budget, facts.unit, facts.first_ready, facts.t_stop) == (1.0, 1.0, 1.0, 0.0)
    assert facts.stalls.shape == (0, 2)


def test_what_is_recorded_is_read_back(spec: LoadSpec) -> None:
    reserve(spec)
    spool = Spool(spec.spool)
    spool.begin(100.0)
    row = 1 * 3 + 2
    ready = spec.schedule().frame_ready(2, 1)
    spool.sent(row, ready + 0.001, 0.002)
    spool.first(row, ready + 0.1)
    spool.first(row, ready + 0.2)
    assert spool.done(row, ready + 0.3, 5, 3)
    assert not spool.done(row, ready + 0.9, 6, 0)
    spool.lags[4] += 2
    spool.stall(0.5, 0.6)
    spool.session(SessionFacts(1, 0.25, refused=True, close_code=1013, reason="session_limit: full"))
    spool.now(ready)
    facts = read_facts(spec.spool)
    (found,) = facts.frames[(facts.frames["session"] == 2) & (facts.frames["frame"] == 1)]
    assert found["t_ready"] == pytest.approx(ready)
    assert found["t_sent"] == pytest.approx(ready + 0.001)
    assert found["lag_max"] == pytest.approx(0.002)
    assert found["t_first"] == pytest.approx(ready + 0.1)
    assert found["t_done"] == pytest.approx(ready + 0.3)
    assert (found["tokens"], found["flags"]) == (5, 3)
    assert facts.lag_counts[4] == 2 and facts.lag_counts.sum() == 2
    assert facts.stalls.tolist() == [[0.5, 0.6]]
    assert facts.sessions[1].refused and facts.sessions[1].reason == "session_limit: full"
    assert facts.t_stop == ready


def test_every_frame_that_became_due_has_a_row(spec: LoadSpec) -> None:
    reserve(spec)
    spool = Spool(spec.spool)
    spool.stop(4.0)
    facts = read_facts(spec.spool)
    ready = spec.schedule().ready_table(spec.table_frames)
    assert len(facts.frames) == int((ready <= 4.0).sum())
    assert np.isnan(facts.frames["t_done"]).all() and np.isnan(facts.frames["t_sent"]).all()
    assert (facts.frames["tokens"] == -1).all()
    assert len({(row["session"], row["frame"]) for row in facts.frames}) == len(facts.frames)


def test_last_word_on_a_session_counts_and_long_reasons_are_cut(spec: LoadSpec) -> None:
    reserve(spec)
    spool = Spool(spec.spool)
    spool.session(SessionFacts(0, 0.1, filled_tokens=7))
    spool.session(SessionFacts(0, 0.1, t_closed=2.0, close_code=1011, reason="é\n" * 5000, filled_tokens=7))
    session = read_facts(spec.spool).sessions[0]
    assert (session.t_closed, session.close_code, session.filled_tokens) == (2.0, 1011, 7)
    assert session.reason.startswith("é\n") and len(session.reason) < 500


def test_facts_survive_a_process_killed_on_the_spot(spec: LoadSpec) -> None:
    reserve(spec)
    code = (
        "import os, sys; from pathlib import Path; from metrobench.load.spool import Spool\n"
        "s = Spool(Path(sys.argv[1])); s.sent(0, 1.5, 0.25); s.done(0, 1.75, 2, 1); s.now(3.0); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(spec.spool)], check=False)
    assert ended.returncode == -9
    facts = read_facts(spec.spool)
    answered = facts.frames[~np.isnan(facts.frames["t_done"])]
    assert answered["t_done"].tolist() == [1.75]
    assert facts.t_stop == 3.0


def test_stalls_without_room_grow_the_last_one(spec: LoadSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STALLS", 2)
    monkeypatch.setattr(module, "_STATE_WORDS", module._HEADER + module.BINS + 4)
    reserve(spec)
    spool = Spool(spec.spool)
    for start in (1.0, 2.0, 3.0):
        spool.stall(start, start + 0.5)
    assert read_facts(spec.spool).stalls.tolist() == [[1.0, 1.5], [2.0, 3.5]]
    assert spool.stalls(1).tolist() == [[2.0, 3.5]]


def test_folder_that_cannot_be_written_is_an_error_before_the_run(spec: LoadSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write the facts"):
        reserve(replace(spec, spool=tmp_path / "file" / "spool"))


def test_full_disk_shows_before_the_run(spec: LoadSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UsageError, match="No space left"):
        reserve(spec)


def test_folder_without_facts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no facts"):
        read_facts(tmp_path)
