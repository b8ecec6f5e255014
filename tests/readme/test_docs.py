"""The documentation is true: its parts are those of the code, it builds, and what it names exists.

Its commands run in test_readme.py, in the same folder.
"""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from metrobench.admission.workload import load_workload
from metrobench.cli.main import COMMANDS, cli
from metrobench.errors import EXIT_CODES, MetrobenchError
from metrobench.gate.rules import parse_policy
from tests.readme.commands import PAGES, PLUGIN, README, ROOT, blocks, commands
from tests.readme.docs_forms import DOCS_FORMS
from tests.readme.forms import FORMS
from tests.readme.test_readme import VLLM_OPTIONS, options_of
from tests.report.browser import Browser, installed

VLLM_SETTINGS = {"--scheduler-cls", "--attention-backend"}
LANGUAGES = {"toml", "python", "text"}
"""Of blocks that hold no command."""
BROWSERS = pytest.mark.skipif(installed() is None, reason="no Chromium is installed here")

Pages = pytest.mark.parametrize("page", PAGES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning of mkdocs is an error."""
    pytest.importorskip("mkdocs", reason="comes with .[docs]")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "docs/generate.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)


def test_what_comes_from_the_code_is_as_the_code_says() -> None:
    done = generate("--check")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_every_command_has_its_help_in_the_documentation() -> None:
    parts = re.findall(r"<!-- made: help (\S+) -->", PAGES["docs/commands.md"])
    assert parts == list(COMMANDS)


def test_every_error_ends_with_a_code_that_is_explained() -> None:
    kinds = [MetrobenchError, *MetrobenchError.__subclasses__()]
    assert [kind for kind in kinds if kind.exit_code not in EXIT_CODES] == []


def test_the_site_has_every_page_in_its_navigation(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    pages = {Path(page).stem for page in PAGES if page != PLUGIN} | {"kvwindow"}
    assert [page for page in sorted(pages) if f'href="{page}.html"' not in start] == []


def test_every_form_of_the_documentation_is_of_a_command_in_it_and_only_there() -> None:
    shown = {command for text in PAGES.values() for command in commands(text)}
    assert set(DOCS_FORMS) - shown == set()
    assert set(DOCS_FORMS) & set(FORMS) == set()


@Pages
def test_every_block_of_a_page_is_commands_or_says_what_it_is(page: str) -> None:
    others = [block for block in blocks(PAGES[page]) if not block.commands]
    drawn = [block for block in others if page == PLUGIN and not block.language]
    assert [block.lines for block in others if block.language not in LANGUAGES and block not in drawn] == []


@Pages
def test_what_a_page_shows_of_a_terminal_is_80_columns_wide(page: str) -> None:
    texts = [block.lines for block in blocks(PAGES[page]) if block.language == "text"]
    shown = [lines for block in blocks(PAGES[page]) for lines in block.printed.values()]
    assert [line for lines in [*texts, *shown] for line in lines if len(line) > 80] == []


@Pages
def test_every_option_that_a_page_names_exists(page: str) -> None:
    text = re.sub(r"```text\n.*?```", "", PAGES[page], flags=re.DOTALL)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - VLLM_OPTIONS - VLLM_SETTINGS
    assert named - options_of(cli) == set()


@Pages
def test_every_file_of_this_repository_that_a_page_names_exists(page: str) -> None:
    named = re.findall(r"`((?:metrobench|tests|benchmarks|docs)/[\w./-]+\.\w+)`", PAGES[page])
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_rules_and_the_workload_that_pages_show_are_taken(tmp_path: Path) -> None:
    shown = {page: [block.lines for block in blocks(text) if block.language == "toml"] for page, text in PAGES.items()}
    [rules], [workload] = shown["docs/gate.md"], shown["docs/ramp.md"]
    settings = tomllib.loads("\n".join(rules))["tool"]["metrobench"]["gate"]
    assert len(parse_policy({name: each for name, each in settings.items() if name != "baseline"}, "a page").rules) == 7
    file = tmp_path / "mine.toml"
    file.write_text("\n".join(workload))
    assert load_workload(str(file)).name == "lunch-break"


def test_the_readme_leads_to_the_documentation() -> None:
    assert "(docs/index.md)" in README


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a port of this machine."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.browser
@BROWSERS
def test_a_page_asks_nobody_and_is_as_wide_as_the_window(address: str) -> None:
    with Browser() as browser:
        for name, width, dark in (("numbers", 1280, False), ("commands", 390, True)):
            seen = browser.show(f"{address}/{name}.html", width, dark)
            assert [each for each in seen.requests if not each.startswith((address, "data:"))] == []
            # the theme's search says on the console that it is ready
            assert [each for each in seen.messages if "unr index" not in each] == []
            assert seen.width == width
