"""An open system against a scripted server: who comes, who is refused, who leaves, to the session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metrobench.admission.timetable import Timetable
from metrobench.measure.collapse import Kind
from metrobench.measure.open_system import OpenSystem, open_system
from metrobench.records import read_facts, read_record
from tests.cli.command import metrobench
from tests.servers.streaming import Outcome, stream
from tests.servers.truth import ALL, Script, TruthServer

pytestmark = pytest.mark.realtime

UNIT = 0.2
FRAMES = 10


def table(count: int, gap: float, frames: int = FRAMES) -> Timetable:
    """One session every `gap` seconds."""
    come = tuple(gap * number for number in range(count))
    return Timetable(come, tuple(t + 0.5 for t in come), (frames,) * count, (UNIT,) * count)


def run(when: Timetable, **script: object) -> tuple[Outcome, OpenSystem]:
    """The load process by itself, and what its facts say."""
    outcome = stream(
        Script(unit=UNIT, first_ready=UNIT, **script),  # type: ignore[arg-type]
        lambda load, event: None,
        mode="open",
        timetable=when,
        sessions=len(when),
        budget=UNIT,
        frames=max(when.frames),
        max_frames=max(when.frames),
        cut_frames=0,
    )
    return outcome, open_system(outcome.facts)


def test_sessions_come_and_go_and_every_planned_frame_is_answered() -> None:
    outcome, found = run(table(6, 0.3))
    assert outcome.kinds[-1] == "stopped" and outcome.last("stopped").message == "finished"
    assert (found.admitted, found.refused, found.lost, found.due) == (6, 0, 0, 60)
    rows = outcome.facts.frames
    assert len(rows) == 60 and not np.isnan(rows["t_done"]).any()
    assert found.peak <= 6 and found.collapse.kind is Kind.NONE


def test_one_above_the_limit_is_refused_with_its_signals_and_1013() -> None:
    _, found = run(table(5, 0.05), limit=3)
    assert (found.admitted, found.refused) == (3, 2)
    assert found.refused_by == {"overloaded": 2}
    for each in found.refusals:
        assert (each.close_code, each.reason) == (1013, "overloaded: full for now")
        assert each.signals == {"sessions": 3, "cap": 3, "retry_after_ms": 4000.0}


def test_who_hangs_up_makes_room_for_another() -> None:
    _, found = run(table(3, 2.0, frames=3), limit=1)
    assert (found.admitted, found.refused) == (3, 0)


def test_a_server_that_accepts_too_late_has_refused() -> None:
    _, found = run(table(3, 0.1), accept_delay=2.0)
    assert found.refused_by == {"too-slow": 3}


def test_admitted_sessions_that_are_no_longer_answered_are_a_stall() -> None:
    _, found = run(table(3, 0.1, frames=50), silent_from=[(ALL, 10)])
    assert found.collapse.kind is Kind.STALL


def test_a_session_that_the_server_closes_is_lost() -> None:
    _, found = run(table(3, 0.1), close_at=[(1, 4, 1011, "gone")])
    assert found.lost == 1 and found.missed == FRAMES - 4


def profile(folder: Path) -> Path:
    """The smoke profile at 200 ms a frame."""
    from metrobench.profiles import profile_path

    text = profile_path("smoke").read_text()
    lines = [
        f"{line.split('=')[0]}= 200.0" if line.startswith(("unit_ms", "budget_ms")) else line
        for line in text.splitlines()
    ]
    file = folder / "fast.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_the_command_tells_of_n_star_and_keeps_every_refusal(tmp_path: Path) -> None:
    with TruthServer(replace(Script(unit=UNIT, first_ready=UNIT), limit=6)) as server:
        arguments = ("--endpoint", server.url, "--model", str(profile(tmp_path)), "--out", str(tmp_path / "reports"))
        done = metrobench("ramp", "--offer", "60", "--rate", "6/s", "--hold", "4s", *arguments, cwd=tmp_path)
    assert done.code in (0, 3), done
    (folder,) = (tmp_path / "reports").iterdir()
    record = read_record(folder)
    assert record.result is not None
    found = record.result["ramp"]
    assert found["admitted"] + found["refused"] == found["offered"] == 60
    assert found["n_star"] == 6.0 and found["peak"] == 6
    assert all(len(line) <= 80 for line in done.out.splitlines()[:-1])
    assert "N*         6 sessions" in done.out
    victim = found["refusals"][0]["session"]
    told = metrobench("report", str(folder), "--why", str(victim), cwd=tmp_path)
    assert "overloaded: full for now" in told.out and told.code == 0
    assert len(read_facts(folder).sessions) == 60


def test_nobody_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    done = metrobench(
        "ramp", "--offer", "20", "--rate", "20/s", "--endpoint", "ws://127.0.0.1:9/v1/realtime", cwd=tmp_path
    )
    assert done.code == 4 and "connection refused" in done.err
