"""The page: readable by everybody, asks nothing of anybody, never costs a measurement."""

from __future__ import annotations

import copy
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metrobench.measure.plan import Plan
from metrobench.records import Record, RunFolder, read_record
from metrobench.report import html
from metrobench.report.html import plots
from metrobench.report.html.figures import NO_PLOTS
from metrobench.report.html.page import compared, page
from metrobench.report.stored import Stored, open_record
from metrobench.report.view import look
from tests.report import made
from tests.virtual_servers import facts, ready_times

LIMIT = 5_000_000
"""Most bytes of a page."""


class Parsed(HTMLParser):
    """Tags with their attributes in order, and the words that are seen."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._hidden = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words += f"{data}\n"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def show(folder: Path) -> str:
    return page(look(open_record(folder / "run.json"), closely=True, judge=True))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> str:
    return show(made.search(tmp_path_factory.mktemp("search")))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> str:
    return show(made.run(tmp_path_factory.mktemp("run")))


@pytest.fixture(params=["searched", "ran"])
def text(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_nothing_is_asked_of_any_server_and_no_script_runs(text: str) -> None:
    parsed = Parsed(text)
    assert not parsed.all("script")
    assert not parsed.all("link")
    for tag, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("src", "href", "action", "srcset", "data"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:text/csv")), (tag, target)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    policy = next(each["content"] for each in parsed.all("meta") if each.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")


def test_it_has_landmarks_one_main_heading_and_tables_that_name_their_cells(text: str) -> None:
    parsed = Parsed(text)
    for tag in ("header", "main", "footer", "h1"):
        assert len(parsed.all(tag)) == 1
    assert parsed.all("html") == [{"lang": "en"}]
    assert {each.get("scope") for each in parsed.all("th")} == {"col", "row"}
    assert len(parsed.all("caption")) == len(parsed.all("table"))


def test_every_plot_says_what_it_shows_and_has_the_numbers_behind_it(text: str) -> None:
    parsed = Parsed(text)
    drawings = parsed.all("svg")
    assert len(drawings) >= 5
    for each in drawings:
        assert each["role"] == "img"
        assert each["aria-label"]
    assert len(parsed.all("title")) == 1 + len(drawings)
    assert len(parsed.all("details")) == len(parsed.all("summary")) == len(parsed.all("figure")) == len(drawings)


def test_no_two_elements_share_an_identifier_and_no_reference_leads_nowhere(text: str) -> None:
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(names)


def test_colours_are_those_of_the_page_in_dark_and_light(text: str) -> None:
    used = set(re.findall(r"var\(--(\w+)\)", text))
    light, dark = text.split("@media screen and (prefers-color-scheme: dark)")[:2]
    for name in used:
        assert f"--{name}:" in light
        assert f"--{name}:" in dark.split("}\n}")[0] or name in ("line",)
    assert not re.search(r"#01[0-9a-f]{2}fe", text)


def test_no_number_is_missing_by_name(text: str) -> None:
    assert not re.search(r"\b(nan|NaN|inf|None)\b", Parsed(text).words)
    assert not re.search(r'"[^"]*\bnan\b', text)


def test_the_verdict_comes_first_then_whether_it_can_be_trusted(searched: str) -> None:
    words = Parsed(searched).words
    places = [words.index(part) for part in ("36 concurrent sessions hold, 44 do not", "Can it be trusted?", "Runs\n")]
    assert places == sorted(places)
    assert "Stand-in" in words
    assert "metrobench capacity --model smoke --out 'a folder'" in words
    assert "At 36 sessions" in words
    assert "At 44 sessions" in words


def test_what_a_server_says_is_shown_and_does_nothing(ran: str) -> None:
    assert made.SPOKEN in Parsed(ran).words
    assert made.SPOKEN not in ran


def test_the_worst_session_says_how_it_ended(ran: str) -> None:
    assert f"closed at 12 s: {made.SPOKEN}" in Parsed(ran).words


def test_why_a_run_failed_stands_below_it_over_all_columns(searched: str) -> None:
    _, _, rest = searched.partition("<h2>Each run</h2>")
    table = rest.partition("</table>")[0]
    columns = str(table.count('scope="col"'))
    below = [each["colspan"] for each in Parsed(table).all("td") if each.get("class") == "under"]
    assert below == [columns] * table.count(">failed<")
    assert table.count("are allowed") == len(below) > 0


@pytest.mark.parametrize("status", ["interrupted", "failed", "running"])
def test_a_record_that_did_not_end_well_says_so(tmp_path: Path, status: str) -> None:
    folder = made.run(tmp_path, status="complete")
    stored = open_record(folder / "run.json")
    stored.record.status, stored.record.error = status, "it came to this"
    words = Parsed(page(look(stored, closely=False, judge=False))).words
    assert f"{status}: it came to this" in words


def test_without_matplotlib_there_is_a_page_without_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    parsed = Parsed(show(made.search(tmp_path)))
    assert not parsed.all("svg")
    assert parsed.words.count(NO_PLOTS) == 1
    assert "Worst sessions" in parsed.words


def test_a_plot_that_fails_takes_no_other_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no ink")

    monkeypatch.setattr(plots, "send_lag", fail)
    parsed = Parsed(show(made.run(tmp_path)))
    assert "could not be drawn (ValueError: no ink)" in parsed.words
    assert len(parsed.all("svg")) == 4


def test_telemetry_that_cannot_be_read_costs_its_plots_only(tmp_path: Path) -> None:
    folder = made.run(tmp_path)
    (folder / "telemetry.parquet").unlink()
    parsed = Parsed(show(folder))
    assert len(parsed.all("svg")) == 3
    assert "Not shown: the telemetry in" in parsed.words


def _many(record: Record, count: int) -> Record:
    record.probes = [copy.deepcopy(record.probes[i % len(record.probes)]) for i in range(count)]
    for i, probe in enumerate(record.probes):
        probe.sessions, probe.index = 30 + i % 37, i + 1
        probe.close_reasons = [f"{i} {'x' * 500}"]
    return record


def test_thousands_of_runs_fit_the_limit(tmp_path: Path) -> None:
    stored = open_record(made.search(tmp_path) / "run.json")
    _many(stored.record, 3000)
    text = page(look(stored, closely=False, judge=False))
    assert len(text.encode()) < LIMIT
    assert "and 2500 more" in text
    assert "and 2950 more" in text


def test_hours_fit_the_limit_and_its_one_late_answer_is_seen(tmp_path: Path) -> None:
    of = Plan(sessions=2, budget=1.0, unit=1.0, q=0.01, cut_frames=5, frames=20_000)
    ready = ready_times(of)
    waits = np.random.default_rng(1).uniform(0.1, 0.4, ready.shape)
    waits[1, 15_000] = 7.0
    record, folder = made.blank("run"), tmp_path / "hours"
    folder.mkdir()
    made.add_run(folder, record, of, facts(of, ready, ready + waits))
    RunFolder(folder).write(record)
    text = show(folder)
    assert len(text.encode()) < LIMIT
    assert "7000.0" in text


def test_records_side_by_side_are_all_named_with_what_is_not_alike(tmp_path: Path) -> None:
    folders = [made.search(tmp_path), made.run(tmp_path), made.run(tmp_path, "other", sessions=25)]
    stored = [open_record(folder / "run.json") for folder in folders]
    stored[2].record.setting["budget"] = 0.5
    text = compared([look(each, closely=False, judge=True) for each in stored])
    words = Parsed(text).words
    for folder in folders:
        assert folder.name in words
    assert "budget: 1 s, 500 ms" in words
    assert len(Parsed(text).all("svg")) == 1


def test_hundreds_of_records_fit_the_limit(tmp_path: Path) -> None:
    stored = open_record(made.search(tmp_path) / "run.json")
    views = [look(Stored(tmp_path / f"{i}", _many(copy.deepcopy(stored.record), 60)), closely=False, judge=False)
             for i in range(60)]  # fmt: skip
    assert len(compared(views).encode()) < LIMIT


def test_a_command_writes_its_page_beside_its_record(tmp_path: Path) -> None:
    folder = made.run(tmp_path)
    assert html.write(RunFolder(folder), read_record(folder)) is None
    assert "20 sessions" in (folder / "index.html").read_text()


def test_a_page_that_cannot_be_written_is_said_and_costs_nothing(tmp_path: Path) -> None:
    folder = made.run(tmp_path)
    (folder / "index.html").mkdir()
    words = html.write(RunFolder(folder), read_record(folder))
    assert words is not None
    assert "could not be written" in words


def test_a_page_that_cannot_be_made_is_said_and_costs_nothing(tmp_path: Path) -> None:
    folder = made.run(tmp_path)
    record = read_record(folder)
    record.probes[0].verdict = {}
    words = html.write(RunFolder(folder), record)
    assert words is not None
    assert "could not be made" in words
