"""`metrobench report`: what was stored, again; never a measurement, never a traceback."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from metrobench.cli.main import main
from metrobench.lock import take
from metrobench.records import read_record
from tests.cli.command import metrobench
from tests.report import made


@dataclass(frozen=True)
class Told:
    code: int
    out: str
    err: str


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """The command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Told:
        with pytest.raises(SystemExit) as end:
            main(["report", *(str(each) for each in arguments)])
        sys.stdout.flush()
        told = capfd.readouterr()
        assert "Traceback" not in told.err
        return Told(int(end.value.code or 0), told.out, told.err)

    return run


def test_with_nothing_measured_yet_it_says_what_to_name(tmp_path: Path) -> None:
    done = metrobench("report", cwd=tmp_path)
    assert done.code == 2
    assert done.err.splitlines()[0] == "metrobench: there is no run under reports/"
    assert "name one: a run folder" in done.err
    assert not list(tmp_path.iterdir())


def test_bare_it_shows_the_newest_run_and_makes_its_page_anew(tmp_path: Path, report) -> None:
    made.search(tmp_path / "reports")
    newest = made.run(tmp_path / "reports")
    told = report()
    assert (told.code, told.err) == (0, "")
    assert "  sessions      20 for 15 s" in told.out
    assert told.out.splitlines()[-1] == f"report   reports/{newest.name}/index.html"
    assert "20 sessions" in (newest / "index.html").read_text()


def test_a_search_looks_as_the_command_printed_it(tmp_path: Path, report) -> None:
    told = report(made.search(tmp_path))
    lines = told.out.splitlines()
    assert lines[0].startswith("stand-in: real vLLM 0.32.0")
    assert "MSCS [36, 44] sessions · limited by" in told.out
    assert any(line.split()[:3] == ["36", "2", "0.0"] for line in lines)
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)


def test_a_check_looks_as_the_command_printed_it(tmp_path: Path, report) -> None:
    told = report(made.run(tmp_path, kind="check"))
    assert "  answers       " in told.out


def test_several_are_compared_in_a_table_and_on_one_page(tmp_path: Path, report) -> None:
    folders = [made.search(tmp_path / "reports"), made.run(tmp_path / "reports")]
    told = report("reports")
    lines = told.out.splitlines()
    assert told.code == 0
    assert lines[1].split() == ["kind", "policy", "result", "missed", "p50", "p99", "kv"]
    assert lines[2].split()[:4] == ["1", "capacity", "window:128+32", "[36,"]
    assert lines[3].split()[:4] == ["2", "run", "window:128+32", "20:"]
    assert not (folders[0] / "index.html").exists()
    told = report("reports", "--out", "deep/compare.html")
    assert told.out == "written to deep/compare.html\n"
    assert "2 records side by side" in (tmp_path / "deep" / "compare.html").read_text()


def test_the_same_run_named_twice_is_shown_once(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    assert "  verdict" in report(folder, folder / "run.json").out


def test_one_bad_record_among_several_is_named_and_the_others_are_shown(tmp_path: Path, report) -> None:
    made.search(tmp_path)
    bad = made.run(tmp_path)
    (bad / "run.json").write_text('{"schema": 1, ')
    told = report(tmp_path, "nowhere")
    assert told.code == 2
    assert "[36, 44]" in told.out
    assert [line.split(":")[0] for line in told.err.splitlines()] == ["metrobench", "metrobench"]
    assert str(bad / "run.json") in told.err
    assert "nowhere does not exist" in told.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a metrobench record"),
        (b'{"schema": 7}', "newer metrobench"),
        (b"\xff\xfe", "not a metrobench record"),
    ],
)
def test_a_bad_record_alone_is_a_sentence(tmp_path: Path, report, content: bytes, words: str) -> None:
    folder = made.run(tmp_path)
    (folder / "run.json").write_bytes(content)
    told = report(folder)
    assert told.code == 2
    assert words in told.err
    assert told.out == ""


def test_facts_that_are_missing_are_named_and_the_rest_is_shown(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    (folder / "frames.parquet").unlink()
    told = report(folder)
    assert told.code == 2
    assert "  verdict       failed" in told.out
    assert f"the facts in {folder} cannot be read" in told.err


def test_a_page_that_cannot_be_written_is_said_and_the_rest_is_shown(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    (folder / "index.html").mkdir()
    told = report(folder)
    assert told.code == 0
    assert "  verdict       failed" in told.out
    assert "the page could not be written" in told.err
    assert report(folder, "--format", "html").code == 2


@pytest.mark.parametrize(
    ("form", "first"),
    [("md", "## 20 sessions do not hold"), ("csv", "record,kind,"), ("json", "{"), ("terminal", "stand-in: ")],
)
def test_every_format_goes_to_the_screen_or_to_a_file(tmp_path: Path, report, form: str, first: str) -> None:
    folder = made.run(tmp_path)
    shown = report(folder, "--format", form)
    assert shown.code == 0
    assert shown.out.startswith(first)
    told = report(folder, "--format", form, "--out", "file")
    assert told.out == "written to file\n"
    assert (tmp_path / "file").read_text().rstrip() == shown.out.split("\nreport   ")[0].rstrip()


def test_the_name_of_the_file_says_the_format(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    for name, first in (("a.json", "{"), ("a.md", "## "), ("a.csv", "record,"), ("a.html", "<!doctype html>")):
        report(folder, "--out", name)
        assert (tmp_path / name).read_text().startswith(first)


def test_json_is_the_record(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    assert json.loads(report(folder, "--format", "json").out) == json.loads((folder / "run.json").read_text())
    assert report(folder, "--json").out == report(folder, "--format", "json").out
    told = report(folder, "--json", "--format", "md")
    assert told.code == 2 and "two formats" in told.err


def test_rows_of_frames(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    lines = list(csv.DictReader(io.StringIO(report(folder, "--format", "csv", "--rows", "frames").out)))
    assert len(lines) > 300
    assert lines[0]["frame"] == "0"
    assert report(folder, "--rows", "frames").code == 2


def test_verdicts_of_another_version_are_said_to_differ(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    text = (folder / "run.json").read_text().replace('"outcome": "failed"', '"outcome": "passed"')
    (folder / "run.json").write_text(text)
    told = report(folder)
    assert "judged again: run 1, 20 sessions: failed now, passed in the record" in told.out
    assert "judges some of the stored facts differently" in (folder / "index.html").read_text()
    assert (folder / "run.json").read_text() == text


def test_a_run_that_is_still_being_measured_is_shown_and_left_alone(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path, status="running")
    lock = take(folder)
    told = report(folder)
    assert told.code == 0
    assert "is still being measured" in told.out.replace("\n      ", " ")
    assert not (folder / "index.html").exists()
    assert report(folder, "--format", "html").code == 2
    assert read_record(folder).status == "running"
    assert lock is not None
    lock.release()


def test_a_killed_command_is_salvaged_and_says_so(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path, status="running")
    told = report(folder)
    assert told.code == 0
    assert "interrupted the command was killed" in told.out
    assert read_record(folder).status == "interrupted"


@pytest.mark.parametrize(
    ("out", "words"),
    [("folder", "is a folder"), ("file/deeper.md", "cannot write to"), ("/proc/nothing/a.md", "cannot write to")],
)
def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path, report, out: str, words: str) -> None:
    folder = made.run(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    told = report(folder, "--format", "md", "--out", out)
    assert told.code == 2
    assert words in told.err
    assert not list(tmp_path.rglob("*.part"))


def test_nothing_is_measured_and_no_engine_is_loaded(tmp_path: Path) -> None:
    folder = made.run(tmp_path)
    code = (
        "import sys\nfrom metrobench.cli.main import main\n"
        "try:\n    main(['report', sys.argv[1]])\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert not {'torch', 'vllm', 'picows', 'uvloop'} & set(sys.modules)\n"
    )
    import subprocess

    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, env=os.environ)


def test_an_ending_that_no_report_has_is_refused(tmp_path: Path, report) -> None:
    folder = made.run(tmp_path)
    told = report(folder, "--out", "report.pdf")
    assert (told.code, told.out) == (2, "")
    assert "no report ends in .pdf" in told.err and ".html" in told.err
    assert not (tmp_path / "report.pdf").exists()
    assert report(folder, "--out", "report.pdf", "--format", "csv").code == 0
