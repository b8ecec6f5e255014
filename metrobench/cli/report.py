"""`metrobench report`: show stored records again, in any format. Never measures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metrobench.records import Record
    from metrobench.report.stored import Stored
    from metrobench.report.view import View

FORMATS = ("terminal", "html", "md", "csv", "json")
ENDINGS = {
    "": "terminal",
    ".txt": "terminal",
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".markdown": "md",
    ".csv": "csv",
    ".json": "json",
}
"""Ending of a file's name to its format."""


@click.command()
@click.argument("run", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="[default: what the name after --out ends in, else terminal]",
)
@options.as_json
@click.option(
    "--rows",
    type=click.Choice(["runs", "frames"]),
    default="runs",
    show_default=True,
    help="What is a line of --format csv.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to this file.")
@click.option("--why", type=options.Whole(0), metavar="N", help="Why session N of a ramp was refused, and no more.")
@options.debug
def report(
    run: tuple[Path, ...], form: str | None, as_json: bool, rows: str, out: Path | None, why: int | None
) -> None:
    """Show stored records again. Never measures.

    RUN is a run folder, its run.json, or a folder of run folders. Without RUN: the newest run under reports/. Several
    are compared in a table, with --out FILE.html on one page; of a single one the page index.html is made anew.

    A run whose command was killed is salvaged from its raw facts first.
    """
    from metrobench.errors import UsageError

    if as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form} are two formats", "leave one of them out")
    form = "json" if as_json else form or _by_name(out)
    if rows == "frames" and form != "csv":
        raise UsageError("--rows frames is for --format csv")
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder", f"name a file, for example {out / 'report.html'}")
    desk = _Desk()
    records = desk.open(run)
    if why is not None:
        _explain(records, why)
    elif records:
        _show(records, form, rows, out)
    desk.complain(complaint for stored in records for complaint in stored.complaints)
    sys.exit(2 if desk.complained else 0)


class _Desk:
    """What goes wrong is said when it happens, and decides the exit code at the end."""

    def __init__(self) -> None:
        self.complained = False

    def complain(self, messages: Iterable[str]) -> None:
        """One line each on stderr."""
        from metrobench.cli.output import plain

        for message in messages:
            self.complained = True
            print(f"metrobench: {plain(message)}", file=sys.stderr)

    def open(self, asked: tuple[Path, ...]) -> list[Stored]:
        """All records that can be read, each once; raises UsageError where there is none at all."""
        from metrobench.errors import UsageError
        from metrobench.report.stored import find, newest, open_record

        if not asked:
            return [open_record(newest())]
        files: dict[Path, Path] = {}
        failures: list[UsageError] = []
        opened = []
        for path in asked:
            try:
                files |= {file.resolve(): file for file in find(path)}
            except UsageError as error:
                failures.append(error)
        for file in files.values():
            try:
                opened.append(open_record(file))
            except UsageError as error:
                failures.append(error)
        if len(failures) == 1 and not opened:
            raise failures[0]
        self.complain(failure.message for failure in failures)
        return opened


def _explain(records: list[Stored], session: int) -> None:
    """One refusal of one record. Raises UsageError."""
    from metrobench.cli.output import say
    from metrobench.errors import UsageError
    from metrobench.report import ramp_table

    if len(records) != 1:
        raise UsageError("--why is about one RUN", "name a single run folder")
    say(ramp_table.why(records[0].record, session))


def _by_name(out: Path | None) -> str:
    """The format that a file's name asks for. Raises UsageError for an ending that promises another one."""
    from metrobench.errors import UsageError

    suffix = out.suffix.lower() if out else ""
    if suffix not in ENDINGS:
        raise UsageError(
            f"no report ends in {suffix}", "use .html, .md, .csv, .json or .txt, or say which with --format"
        )
    return ENDINGS[suffix]


def _show(records: list[Stored], form: str, rows: str, out: Path | None) -> None:
    from metrobench.report import csvfile, jsonfile, markdown

    if form == "json":
        found = [stored.record for stored in records]
        _deliver([jsonfile.text(found if len(found) > 1 else found[0]) + "\n"], out)
    elif form == "csv":
        _deliver(csvfile.frames(records) if rows == "frames" else csvfile.runs(records), out)
    elif form == "md":
        _deliver([markdown.document(records) + "\n"], out)
    elif form == "html":
        _pages(records, out)
    else:
        _terminal(records, out)


def _pages(records: list[Stored], out: Path | None) -> None:
    """The page of each record in its folder, or with --out one page: of the record, or of all beside each other."""
    from metrobench.cli.output import say
    from metrobench.errors import UsageError
    from metrobench.report.html.page import compared, page
    from metrobench.report.view import look

    if out is not None:
        if len(records) > 1:
            text = compared([look(stored, closely=False, judge=True) for stored in records])
        else:
            text = page(look(records[0], closely=True, judge=True))
        _deliver([text], out)
        return
    for stored in records:
        if stored.live:
            stored.complaints.append(f"{stored.path} is still being measured: its page comes at its end")
            continue
        try:
            say(str(_refresh(look(stored, closely=True, judge=True))))
        except UsageError as error:
            stored.complaints.append(error.message)


def _refresh(view: View) -> Path:
    """index.html in the record's folder, made anew. Raises UsageError."""
    from metrobench.errors import UsageError
    from metrobench.records import RunFolder
    from metrobench.report.html import NAME
    from metrobench.report.html.page import page

    folder = view.stored.path
    try:
        RunFolder(folder).write_text(NAME, page(view))
    except OSError as error:
        raise UsageError(f"the page could not be written to {folder}: {error.strerror}") from error
    return folder / NAME


def _terminal(records: list[Stored], out: Path | None) -> None:
    """What the command printed, its page made anew; of several a table."""
    from metrobench.report import comparison, terminal
    from metrobench.report.view import look
    from metrobench.report.whole import whole

    alone = len(records) == 1
    views = [look(stored, closely=alone, judge=True) for stored in records]
    found = [stored.record for stored in records]
    lines = [whole(found[0])] if alone else [comparison.numbered(found), ""]
    if not alone:
        most = len(str(len(records)))
        lines += [f"{place:<{most}}  {stored.path}" for place, stored in enumerate(records, 1)]
        lines += terminal.wrapped(f"not alike: {line}" for line in comparison.unlike(found))
        lines += _beside(found)
    lines += terminal.wrapped(f"{stored.path} is still being measured" for stored in records if stored.live)
    lines += terminal.wrapped(f"judged again: {words}" for view in views for words in view.differences)
    _deliver(["\n".join(lines) + "\n"], out)
    if alone and out is None and not records[0].live:
        _link(views[0])


def _beside(records: list[Record]) -> list[str]:
    """Capacity beside answers, where there are records of both."""
    from metrobench.report import policies, quality_table, terminal

    both = policies.rows(records)
    if not both:
        return []
    notes = terminal.wrapped(f"note: {line}" for line in policies.notes(records))
    return ["", *quality_table.columns([policies.HEADINGS, *both]), *notes]


def _link(view: View) -> None:
    """The page made anew, and where it is. Where it cannot be written that is said: what was asked for was shown."""
    from metrobench.cli.output import plain, say
    from metrobench.errors import UsageError

    try:
        say(f"report   {_refresh(view)}")
    except UsageError as error:
        print(f"metrobench: {plain(error.message)}", file=sys.stderr)


def _deliver(parts: Iterable[str], out: Path | None) -> None:
    """To standard output, or to a file that appears when it is whole. Raises UsageError."""
    from metrobench.cli.files import write_whole
    from metrobench.cli.output import say

    if out is None:
        for part in parts:
            say(part.removesuffix("\n"))
        return
    write_whole(out, parts)
    say(f"written to {out}")
