"""Markdown, CSV and JSON of records."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from metrobench.report import csvfile, jsonfile, markdown
from metrobench.report.stored import Stored, open_record
from tests.report import made


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return open_record(made.run(tmp_path) / "run.json")


@pytest.fixture
def searched(tmp_path: Path) -> Stored:
    return open_record(made.search(tmp_path) / "run.json")


def read(lines: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(lines))))  # type: ignore[call-overload]


def numbers(value: object) -> list[float]:
    """All numbers inside a verdict, in order."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_csv_has_one_line_a_run_and_says_where_a_stand_in_ran(searched: Stored, stored: Stored) -> None:
    lines = read(csvfile.runs([searched, stored]))
    assert [line["sessions"] for line in lines] == ["36", "44", "36", "44", "20"]
    assert {line["stand_in"] for line in lines} == {"yes"}
    assert lines[4]["record"] == stored.path.name


def test_csv_has_every_number_of_the_verdict(stored: Stored) -> None:
    line = read(csvfile.runs([stored]))[0]
    shown = [float(cell) for cell in line.values() if re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell) and cell.count(".") < 2]
    for number in numbers(stored.record.probes[0].verdict):
        assert number in shown


def test_csv_names_its_units(stored: Stored) -> None:
    line = read(csvfile.runs([stored]))[0]
    verdict = stored.record.probes[0].verdict
    assert float(line["latency_p50_s"]) == verdict["latency"]["p50"]
    assert float(line["growth_slope_value_s_per_s"]) == verdict["growth"]["slope"]["value"]
    assert float(line["misses_rate_share"]) == verdict["misses"]["rate"]
    assert float(line["cpu_engine_cores"]) == stored.record.probes[0].cpu_shares["engine"]
    assert float(line["span_s"]) == 15.0
    assert line["latency_p99_s"] == ""


def test_csv_words_of_a_server_are_no_formula(stored: Stored) -> None:
    stored.record.probes[0].close_reasons = ["=cmd()"]
    assert read(csvfile.runs([stored]))[0]["close_reasons"] == "'=cmd()"


def test_csv_of_nothing_is_a_header(stored: Stored) -> None:
    stored.record.probes = []
    assert "".join(csvfile.runs([stored])).startswith("record,kind,")


def test_csv_of_frames_has_one_line_a_frame(stored: Stored) -> None:
    lines = read(csvfile.frames([stored]))
    frames = stored.facts(stored.record.probes[0]).frames
    assert len(lines) == len(frames)
    assert np.array([float(line["t_ready_s"]) for line in lines]) == pytest.approx(frames["t_ready"])
    unanswered = [line for line in lines if not line["t_done_s"]]
    assert len(unanswered) == int(np.isnan(frames["t_done"]).sum()) > 0
    assert {line["latency_s"] for line in unanswered} == {""}


def test_csv_of_frames_leaves_out_what_cannot_be_read_and_says_so(searched: Stored) -> None:
    (searched.path / "probes" / "02-n44" / "frames.parquet").write_bytes(b"")
    assert {line["run"] for line in read(csvfile.frames([searched]))} == {"1", "3", "4"}
    assert "02-n44" in searched.complaints[0]


def test_json_is_run_json_and_of_several_a_list(stored: Stored) -> None:
    one = json.loads(jsonfile.text(stored.record))
    assert one == json.loads((stored.path / "run.json").read_bytes())
    assert json.loads(jsonfile.text([stored.record, stored.record])) == [one, one]
    assert all(math.isfinite(number) for number in numbers(one))


def test_markdown_has_the_verdict_the_table_and_the_warnings(searched: Stored) -> None:
    searched.record.warn(next(iter(made_warnings())))
    text = markdown.document([searched])
    lines = text.splitlines()
    assert lines[0].startswith("## 36 concurrent sessions hold, 44 do not")
    assert "> **Stand-in** for smoke: this machine's capacity, not the model's." in lines
    header = next(place for place, line in enumerate(lines) if line.startswith("| sessions"))
    assert {line.count("|") for line in lines[header : header + 4]} == {10}
    assert "- Client and server shared a CPU core" in text


def made_warnings() -> list:
    from metrobench.measure.warnings import Warn

    return [Warn.CORES_SHARED]


def test_markdown_shows_a_servers_words_as_words(stored: Stored) -> None:
    text = markdown.document([stored])
    said = next(line for line in text.splitlines() if line.startswith("- the server said"))
    for letter in "<>|":
        assert f"\\{letter}" in said
        assert letter not in said.replace("<!-- -->", "").replace(f"\\{letter}", "")
    assert "@everybody" not in said


def test_markdown_of_several_has_a_table_of_all(searched: Stored, stored: Stored) -> None:
    text = markdown.document([searched, stored])
    assert "| 1 | capacity | window:128+32 | \\[36, 44\\] |" in text
    assert stored.path.name in text
