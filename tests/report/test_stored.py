"""Records found and opened: the good ones whole, the bad ones named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metrobench.errors import UsageError
from metrobench.report.stored import find, newest, open_record
from tests.report import made

OLD = Path(__file__).parent / "old"
"""Records as earlier versions wrote them."""


def test_a_folder_of_runs_holds_them_in_the_order_of_their_start(tmp_path: Path) -> None:
    later = made.run(tmp_path, "2026-11-30T10-00-00-run-smoke")
    sooner = made.run(tmp_path, "2026-11-29T23-00-00-run-smoke")
    (tmp_path / "notes").mkdir()
    assert find(tmp_path) == [sooner / "run.json", later / "run.json"]


def test_a_run_is_named_by_its_folder_or_its_file(tmp_path: Path) -> None:
    folder = made.run(tmp_path)
    assert find(folder) == find(folder / "run.json") == [folder / "run.json"]


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_place_without_records_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=str(tmp_path / name)):
        find(tmp_path / name)


def test_the_newest_run_is_the_last_dated_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="reports"):
        newest()
    made.run(tmp_path / "reports", "2026-11-29T23-00-00-run-smoke")
    made.run(tmp_path / "reports", "2026-11-30T10-00-00-run-smoke")
    made.run(tmp_path / "reports", "reference")
    assert newest().parent.name == "2026-11-30T10-00-00-run-smoke"


def test_facts_and_telemetry_are_those_of_the_run(tmp_path: Path) -> None:
    stored = open_record(made.run(tmp_path) / "run.json")
    probe = stored.record.probes[0]
    assert len(stored.facts(probe).frames) > probe.verdict["misses"]["planned"]
    assert stored.telemetry(probe)["engine_cpu"][2] == pytest.approx(0.8)
    assert not stored.live
    assert not stored.complaints


def _without(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        for name in path[:-1]:
            record = record[name] if isinstance(record, dict) else record[int(name)]
        del record[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without("setting", "kv"), "`kv`"),
        (_without("setting", "budget"), "`budget`"),
        (_without("profile", "name"), "`name`"),
        (_without("probes", "0", "verdict", "client"), "client"),
        (_without("probes", "0", "verdict", "misses", "rate"), "rate"),
        (_without("probes"), None),
        (lambda record: record["setting"].update(kv="magic"), "magic"),
        (lambda record: record.update(schema=99), "newer"),
        (lambda record: record.pop("kind"), "kind"),
    ],
)
def test_a_record_of_another_version_is_named(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str | None
) -> None:
    file = made.run(tmp_path) / "run.json"
    record = json.loads(file.read_bytes())
    change(record)
    file.write_text(json.dumps(record))
    if words is None:
        assert open_record(file).record.probes == []
        return
    with pytest.raises(UsageError, match=words):
        open_record(file)


def test_a_search_without_its_interval_is_named(tmp_path: Path) -> None:
    file = made.search(tmp_path) / "run.json"
    record = json.loads(file.read_bytes())
    del record["result"]["mscs"]["hi"]
    file.write_text(json.dumps(record))
    with pytest.raises(UsageError, match="hi"):
        open_record(file)


def test_facts_of_another_version_are_named(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    stored = open_record(made.run(tmp_path) / "run.json")
    file = stored.path / "telemetry.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["kv_usage"]), file)
    with pytest.raises(UsageError, match="kv_usage"):
        stored.telemetry(stored.record.probes[0])


def test_telemetry_of_an_earlier_version_lacks_only_what_came_later(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = made.run(tmp_path)
    file = folder / "telemetry.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["admission_cap"]), file)
    stored = open_record(folder / "run.json")
    found = stored.telemetry(stored.record.probes[0])
    assert np.isnan(found["admission_cap"]).all() and len(found["admission_cap"]) == len(found["t"])


def test_the_first_version_of_a_record_opens_complete(tmp_path: Path) -> None:
    shutil.copy(OLD / "first-run.json", tmp_path / "run.json")
    verdict = open_record(tmp_path / "run.json").record.probes[0].verdict
    assert (verdict["misses"]["early"], verdict["others"], verdict["slowdown"]) == (0, None, None)
