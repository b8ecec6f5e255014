"""A server that stops is named while it is silent, and what brings it back is tried in four phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrobench.load.process import LoadProcess
from metrobench.load.spec import LoadEvent
from metrobench.records import Record, read_record
from tests.cli.command import metrobench
from tests.servers.streaming import stream, stream_once
from tests.servers.truth import ALL, Script

pytestmark = pytest.mark.realtime

UNIT = 0.2


def script(**changes: object) -> Script:
    return Script(unit=UNIT, first_ready=UNIT, **changes)  # type: ignore[arg-type]


def tried(load: LoadProcess, event: LoadEvent) -> None:
    """Ask for the four phases once the planned frames are decided."""
    if event.kind == "judge":
        load.aftermath()


def test_silence_is_warned_of_then_named_and_no_phase_brings_it_back() -> None:
    outcome = stream_once(script(silent_from=[(ALL, 10)]), tried, frames=50, max_frames=50)
    alarms = [event for event in outcome.events if event.kind == "alarm"]
    assert [event.message for event in alarms] == ["warning", "stall"]
    onset = 11 * UNIT + UNIT
    assert onset < alarms[0].t < alarms[1].t
    phases = [event for event in outcome.events if event.kind == "aftermath"]
    assert [event.message for event in phases] == ["waited", "paused", "resumed", "shed"]
    assert [event.answered for event in phases] == [0, 0, 0, 0]
    assert [event.connected for event in phases] == [4, 4, 4, 1]
    assert outcome.kinds[-1] == "stopped"


def test_a_pause_of_the_audio_shifts_the_schedule_and_floods_nobody() -> None:
    outcome = stream(script(), tried)
    phases = {event.message: event for event in outcome.events if event.kind == "aftermath"}
    assert phases["waited"].answered == phases["resumed"].answered == 4
    assert phases["paused"].frames <= 4
    assert phases["resumed"].frames <= 4 * (5 * outcome.spec.budget / UNIT + 1)
    assert (phases["shed"].connected, phases["shed"].answered) == (1, 1)
    assert not any(session.t_closed for session in outcome.facts.sessions)


def test_a_pause_of_the_server_shorter_than_the_silence_of_a_collapse_is_only_warned_of() -> None:
    outcome = stream_once(script(stall=(2.0, 3.5)), frames=40, max_frames=40)
    assert [event.message for event in outcome.events if event.kind == "alarm"] == ["warning"]


@pytest.mark.engine
@pytest.mark.alone
@pytest.mark.timeout(400)
def test_a_pool_that_fills_within_the_run_is_a_stall_that_only_shedding_ends(tmp_path: Path) -> None:
    arguments = ["--model", "smoke", "--sessions", "4", "--pool-tokens", "640", "--kv", "unbounded", "--trials", "1"]
    done = metrobench("collapse", *arguments, "--duration", "15s", "--json", "--out", str(tmp_path), cwd=tmp_path)
    assert done.code == 0, done
    record = read_record(next(tmp_path.glob("2*")))
    assert record.result is not None
    found = record.result["policies"]["unbounded"]
    assert (found["collapsed"], found["kinds"]) == (1, {"stall": 1})
    assert record.result["silence"]["engine"]["kv_usage"] > 0.9
    assert record.result["silence"]["engine"]["preemptions"] == 0
    assert record.result["aftermath"]["resumed"] == {"tried": 1, "served": 0}
    assert record.result["aftermath"]["shed"] == {"tried": 1, "served": 1}
    again = metrobench("collapse", *arguments, "--duration", "15s", "--resume", str(tmp_path), cwd=tmp_path)
    assert again.code == 2


@pytest.mark.engine
@pytest.mark.timeout(400)
def test_a_session_that_loses_its_blocks_while_it_decodes_starves_beside_others_that_are_served(tmp_path: Path) -> None:
    """By this seed's audio the last block is asked for in the middle of an answer: that session is preempted, and
    never fits again beside the two that go on growing into its place."""
    record = collapsed(tmp_path, "--sessions", "3", "--pool-tokens", "608")
    assert record.result is not None
    found = record.result["policies"]["unbounded"]
    assert (found["collapsed"], found["kinds"]) == (1, {"starvation": 1})
    assert record.result["silence"]["share"] == pytest.approx(1 / 3)
    assert record.result["silence"]["engine"]["preemptions"] == 0
    assert record.probes[0].forecasts[1].of_onset is not None
    assert record.result["model"]["unbounded"]["inside"] is True


@pytest.mark.engine
@pytest.mark.timeout(400)
def test_a_context_that_passes_the_last_position_ends_the_engine_for_all(tmp_path: Path) -> None:
    record = collapsed(tmp_path, "--sessions", "3", "--unguarded", after=("--", "--max-model-len", "96"))
    assert record.result is not None
    found = record.result["policies"]["unbounded"]
    assert (found["collapsed"], found["kinds"]) == (1, {"engine-death": 1})
    assert record.result["silence"]["engine"]["kv_usage"] < 0.5


def collapsed(folder: Path, *more: str, after: tuple[str, ...] = ()) -> Record:
    """The record of one trial of the stand-in of `smoke`, unbounded."""
    arguments = ["--model", "smoke", "--kv", "unbounded", "--trials", "1", "--duration", "15s", "--no-aftermath"]
    done = metrobench("collapse", *arguments, *more, "--quiet", "--out", str(folder), *after, cwd=folder)
    assert done.code == 0, done
    return read_record(next(folder.glob("2*")))
