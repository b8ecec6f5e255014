"""Records: facts survive the disk, a full disk, and a reader that is older or unlucky."""

import errno
from pathlib import Path

import msgspec
import numpy as np
import pytest

from metrobench.environment import describe_machine
from metrobench.errors import UsageError
from metrobench.measure.facts import FRAME_DTYPE, LAG_EDGES, TELEMETRY_FIELDS, RunFacts, SessionFacts
from metrobench.records import (
    SCHEMA,
    Record,
    RunFolder,
    plain,
    read_facts,
    read_record,
    read_telemetry,
    write_facts,
)


def _record() -> Record:
    return Record(
        schema=SCHEMA,
        kind="run",
        status="running",
        created="2026-01-01T00:00:00+00:00",
        command=["metrobench"],
        environment=describe_machine(),
        profile={"name": "smoke"},
        setting={},
        seed=1,
        stand_in=True,
    )


def _facts() -> RunFacts:
    frames = np.zeros(3, dtype=FRAME_DTYPE)
    frames["frame"] = [0, 1, 2]
    frames["t_ready"] = [1.0, 2.0, 3.0]
    frames["t_first"] = [1.1, np.nan, 3.1]
    frames["t_done"] = [1.2, np.nan, np.nan]
    return RunFacts(
        frames=frames,
        sessions=[SessionFacts(0, 0.25), SessionFacts(1, 0.5, refused=True, close_code=1013, reason="full")],
        budget=1.0,
        unit=1.0,
        first_ready=1.0,
        stalls=np.array([[0.5, 0.75]]),
        lag_counts=np.arange(len(LAG_EDGES), dtype=np.int64),
        t_stop=4.0,
    )


def test_facts_come_back_as_they_were(tmp_path: Path) -> None:
    facts = _facts()
    write_facts(tmp_path, facts, [{"t": 0.5, "kv_usage": 0.3}, {"t": 1.0, "kv_usage": float("nan")}])
    back = read_facts(tmp_path)
    for name in FRAME_DTYPE.names or ():
        np.testing.assert_array_equal(back.frames[name], facts.frames[name])
    assert back.sessions == facts.sessions
    np.testing.assert_array_equal(back.stalls, facts.stalls)
    np.testing.assert_array_equal(back.lag_counts, facts.lag_counts)
    assert (back.budget, back.unit, back.first_ready, back.t_stop) == (1.0, 1.0, 1.0, 4.0)
    telemetry = read_telemetry(tmp_path)
    assert set(telemetry) == set(TELEMETRY_FIELDS)
    assert telemetry["kv_usage"][0] == 0.3


def test_a_missing_time_is_null_in_the_file(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_facts(tmp_path, _facts(), [])
    assert pq.read_table(tmp_path / "frames.parquet").column("t_done").null_count == 2


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "run-smoke")
    record = _record()
    folder.write(record)
    assert read_record(folder.path) == record


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    assert len({RunFolder.create(tmp_path, "run").path for _ in range(5)}) == 5


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        RunFolder.create(tmp_path / "file", "run")


def test_a_full_disk_still_takes_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(tmp_path, "run")
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if (folder.path / ".reserve").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    folder.write(_record())
    assert read_record(folder.path).status == "running"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"null", b'{"schema": "one"}', b"\xff", b"[" * 100_000])
def test_what_is_no_record_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(UsageError):
        read_record(tmp_path)


def test_a_newer_schema_asks_for_an_update(tmp_path: Path) -> None:
    data = msgspec.to_builtins(_record()) | {"schema": SCHEMA + 1}
    (tmp_path / "run.json").write_bytes(msgspec.json.encode(data))
    with pytest.raises(UsageError, match="newer"):
        read_record(tmp_path)


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage"])
def test_damaged_frames_are_named(tmp_path: Path, damage: str) -> None:
    write_facts(tmp_path, _facts(), [])
    file = tmp_path / "frames.parquet"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "empty" else b"PAR1 not really")
    with pytest.raises(UsageError):
        read_facts(tmp_path)


def test_a_byte_that_changed_on_the_disk_is_named(tmp_path: Path) -> None:
    write_facts(tmp_path, _facts(), [])
    file = tmp_path / "frames.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 4] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(UsageError, match="cannot be read"):
        read_facts(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"sessions": [{}], "budget": 1}', b'{"sessions": [1, 2', b"[" * 100_000]
)
def test_damaged_facts_are_named(tmp_path: Path, content: bytes) -> None:
    write_facts(tmp_path, _facts(), [])
    (tmp_path / "facts.json").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        read_facts(tmp_path)


def test_a_folder_is_reopened_only_when_its_command_is_over(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "run")
    assert RunFolder.reopen(folder.path) is None
    folder.close()
    assert not list(folder.path.iterdir())
    again = RunFolder.reopen(folder.path)
    assert again is not None
    again.close()


def test_what_is_noted_is_as_it_will_be_read_back() -> None:
    assert plain({"pair": (1.0, None)}) == {"pair": [1.0, None]}
