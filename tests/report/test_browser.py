"""The page in a real browser: no message on its console, no request, nothing wider than the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metrobench.report.html.page import compared, page
from metrobench.report.stored import open_record
from metrobench.report.view import look
from tests.report import made
from tests.report.browser import Browser, installed

pytestmark = [pytest.mark.browser, pytest.mark.skipif(installed() is None, reason="no Chromium is installed here")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    parent = tmp_path_factory.mktemp("pages")
    stored = [open_record(make(parent) / "run.json") for make in (made.search, made.run)]
    batch = open_record(made.batch(parent, trials=4, sessions=8, span=20.0) / "run.json")
    texts = {
        "search": page(look(stored[0], closely=True, judge=True)),
        "run": page(look(stored[1], closely=True, judge=True)),
        "batch": page(look(batch, closely=True, judge=True)),
        "several": compared([look(each, closely=False, judge=True) for each in stored]),
    }
    for name, text in texts.items():
        (parent / f"{name}.html").write_text(text)
    return {name: parent / f"{name}.html" for name in texts}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["search", "run", "batch", "several"])
def test_a_page_is_silent_alone_and_as_wide_as_the_window(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    seen = browser.show(pages[name], width, dark)
    assert seen.requests == []
    assert seen.messages == []
    assert seen.width == width
    assert seen.picture.startswith(b"\x89PNG")


def test_a_page_that_misbehaves_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://127.0.0.1:9/a.png'><script>console.error('oh')</script><p style='width:3000px'>x")
    seen = browser.show(bad, 390)
    assert seen.requests
    assert seen.messages
    assert seen.width > 390
