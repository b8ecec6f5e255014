"""The README is true: every command in it runs, says what it should, and prints what is shown. The commands of the
documentation run here too, in the same folder and with the same server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from metrobench.cli.main import COMMANDS, cli
from metrobench.predict.model import Pool
from tests.cli.command import HANG, Finished
from tests.corpus.sounds import write_bad, write_kind
from tests.predict.metrics_page import metrics_page, vllm
from tests.predict.recorded import folder_of
from tests.readme.commands import PAGES, README, blocks, commands, spans, told
from tests.readme.docs_forms import DOCS_FORMS
from tests.readme.forms import FORMS, Form
from tests.report import made

ROOT = Path(__file__).parents[2]
OUTPUT_ALONE = (
    "stand-in: real vLLM",
    "smoke (stand-in) · 8 sessions",
    "kv 25.1 %",
)
"""How the blocks begin that show output of a command named in the text above them."""
ALL_FORMS = FORMS | DOCS_FORMS
EVERY = {"README.md": README, **PAGES}
VLLM_OPTIONS = {"--max-num-batched-tokens"}

Shell = Callable[[str], Finished]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all the files that the README's commands name, and `metrobench` in its bin/."""
    here = tmp_path_factory.mktemp("home")
    made.search(here / "reports")
    made.run(here / "reports")
    collapsed = here / "collapsed" / "reports"
    collapsed.mkdir(parents=True)
    folder_of(collapsed, Pool(501, 32), 12, 60.0).rename(collapsed / "2026-11-30T01-11-36-run-smoke")
    made.run(here, "RUN")
    for folder in ("recordings", "DIR/clips", "NAME"):
        write_kind(here / folder, "pcm.wav")
        write_kind(here / folder, "lossy.mp3")
    write_bad(here / "recordings")
    write_bad(here / "NAME")
    (here / "DIR" / "validated.tsv").write_text("path\tsentence\npcm.wav\tone\nlossy.mp3\ttwo\n")
    shutil.copy(ROOT / "profiles" / "minicpm-o.toml", here / "mine.toml")
    command = here / "bin" / "metrobench"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m metrobench "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return here


@pytest.fixture(scope="module")
def environment(home: Path) -> dict[str, str]:
    path = f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    mine = {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "ROOT": str(ROOT)}
    return {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | mine


@pytest.fixture(scope="module")
def shell(home: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Runs a line as people type it, with a data folder of its own; a line given twice runs once."""
    finished: dict[str, Finished] = {}

    def run(line: str) -> Finished:
        if line not in finished:
            data = str(tmp_path_factory.mktemp("data"))
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=home,
                env={**environment, "XDG_DATA_HOME": data},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=HANG,
            )
            finished[line] = Finished(done.returncode, done.stdout, done.stderr)
        return finished[line]

    return run


@pytest.fixture(scope="module")
def served(home: Path, environment: dict[str, str]) -> Iterator[None]:
    """`metrobench serve` at work; its address in $served, what it printed in served.txt."""
    command = ["metrobench", "serve", "--model", "smoke", "--port", "0"]
    with subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            lines: list[str] = []
            while (line := server.stdout.readline()) and not line.startswith("listening"):
                lines.append(line)
            (home / "served.txt").write_text("".join([*lines, line]))
            environment["served"] = line.split()[2]
            yield
        finally:
            server.send_signal(signal.SIGINT)
    assert server.returncode == 128 + signal.SIGINT


@pytest.fixture
def metrics(environment: dict[str, str]) -> Iterator[None]:
    """A server whose KV pool fills, 2 % of it each second."""
    with metrics_page(lambda t: vllm(0.2 + 0.02 * t, 100 * t)) as address:
        environment["metrics"] = address
        yield


def _parameters() -> list[object]:
    found = []
    for command in told():
        form = ALL_FORMS.get(command)
        marks = [pytest.mark.timeout(400)] if form else []
        if form and (form.needs == "served" or form.measures):
            marks += [pytest.mark.realtime, pytest.mark.engine]
        found.append(pytest.param(command, marks=marks, id=command))
    return found


def shown_as(how: str) -> list[tuple[str, str]]:
    """Page and command of every output of which so much must agree."""
    return [
        (page, command)
        for page, text in EVERY.items()
        for block in blocks(text)
        for command in block.printed
        if ALL_FORMS[command].shown == how
    ]


def test_the_readme_has_every_command_that_a_form_is_written_for() -> None:
    assert [command for command in FORMS if command not in commands()] == []


def test_a_form_that_differs_from_its_command_says_why() -> None:
    differing = {command: form for command, form in ALL_FORMS.items() if form.line and ">" not in command}
    assert [command for command, form in differing.items() if not form.because and command not in form.line] == []


@pytest.mark.parametrize("command", _parameters())
def test_a_command_of_readme_and_documentation_runs(command: str, shell: Shell, request: pytest.FixtureRequest) -> None:
    assert command in ALL_FORMS, f"write a form for it in {Path(__file__).parent}/forms.py or docs_forms.py"
    form: Form = ALL_FORMS[command]
    if form.needs:
        request.getfixturevalue(form.needs)
    done = shell(form.line or command)
    assert done.code in form.code, done
    assert form.says in done.out + done.err, done
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize(("page", "command"), shown_as("exact"))
def test_what_a_page_shows_is_what_is_printed(page: str, command: str, shell: Shell) -> None:
    assert shell(ALL_FORMS[command].line or command).out.rstrip().splitlines() == _shown(page, command)


@pytest.mark.parametrize(("page", "command"), shown_as("labels"))
def test_what_a_machine_is_asked_stands_on_the_page(page: str, command: str, shell: Shell) -> None:
    printed = _labels(shell(ALL_FORMS[command].line or command).out.splitlines())
    assert printed
    assert printed - _labels(_shown(page, command)) == set()


def test_every_block_is_commands_or_settings_or_output_that_is_known() -> None:
    others = [block for block in blocks() if not block.commands and block.language != "toml"]
    assert len(others) == len(OUTPUT_ALONE)
    for block, begins in zip(others, OUTPUT_ALONE, strict=True):
        assert block.lines[0].startswith(begins)


def test_what_the_readme_shows_of_a_terminal_is_80_columns_wide() -> None:
    printed = [line for block in blocks() for lines in block.printed.values() for line in lines]
    assert [line for line in printed if len(line) > 80] == []


def test_every_option_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) - VLLM_OPTIONS
    assert named - options_of(cli) == set()


def test_every_command_of_the_program_is_in_the_readme() -> None:
    typed = {command.split()[1] for command in [*commands(), *spans()] if command.startswith("metrobench ")}
    assert set(COMMANDS) - typed == set()


def test_the_settings_that_the_readme_shows_are_taken(shell: Shell) -> None:
    [settings] = [block for block in blocks() if "[tool.metrobench]" in block.lines]
    text = "\n".join(settings.lines)
    assert tomllib.loads(text)
    write = f"mkdir -p project && cd project && cat > pyproject.toml <<'END'\n{text}\nEND\n"
    told = json.loads(shell(f"{write}metrobench capacity --dry-run --json").out)
    few = json.loads(shell("metrobench capacity --effort full --dry-run --json").out)["runs"]
    assert (told["profile"], told["budget"], told["runs"]) == ("minicpm-o", 1.0, few)
    assert "from pyproject.toml: " in shell(f"{write}metrobench capacity --dry-run").err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```\nmetrobench a   # why\nmetrobench b \\\n    --c\n```\n", ["metrobench a", "metrobench b --c"]),
        ("```\n$ metrobench a\nmetrobench says\n$ make b\n```\n", ["metrobench a", "make b"]),
        ("so `metrobench a\nb` and `make c` but `metrobench` alone, `a/b`", ["metrobench a b", "make c"]),
        ("```toml\nmake = 1\n```\n", []),
    ],
)
def test_commands_are_found_in_blocks_and_sentences(text: str, found: list[str]) -> None:
    assert commands(text) == found


def _shown(page: str, command: str) -> list[str]:
    """What a page shows of a command, without the empty lines at the end."""
    [lines] = [block.printed[command] for block in blocks(EVERY[page]) if command in block.printed]
    return "\n".join(lines).rstrip().splitlines()


def _labels(lines: list[str]) -> set[str]:
    """First column: a name of one to three words, then two spaces or more."""
    return {found[1] for line in lines if (found := re.match(r" {0,2}([a-z]+(?: [a-z]+){0,2})  +\S", line))}


def options_of(command: click.Command) -> set[str]:
    """Options of a command and all below it."""
    context = click.Context(command)
    found = {name for option in command.get_params(context) for name in [*option.opts, *option.secondary_opts]}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                found |= options_of(below)
    return found
