"""`metrobench history`: metrics of many records over time, with change points. Never measures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.gate.history import Series
    from metrobench.gate.samples import Sample

FORMATS = ("terminal", "html", "json")
SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".txt": "terminal"}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR", nargs=-1)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="[default: what the name after --out ends in, else terminal]",
)
@click.option("--metric", multiple=True, metavar="NAME", help="Only this one: mscs, p50, p99, miss_rate or drift.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to this file.")
@options.debug
def history(folder: tuple[Path, ...], form: str | None, metric: tuple[str, ...], out: Path | None) -> None:
    """Metrics of many records over time, and where they changed.

    DIR is a folder of run folders, or holds baseline files; several are read as one. Without DIR: reports.
    """
    from metrobench.cli.files import write_whole
    from metrobench.cli.output import say
    from metrobench.errors import NotValidError, UsageError
    from metrobench.gate.history import UNITS, history

    if unknown := [name for name in metric if name not in UNITS]:
        raise UsageError(f"--metric {unknown[0]!r} is unknown", f"known: {', '.join(UNITS)}")
    if out is not None and out.is_dir():
        raise UsageError(f"--out {out} is a folder", f"name a file, for example {out / 'history.html'}")
    chosen = form or (SUFFIXES.get(out.suffix.lower(), "terminal") if out else "terminal")
    samples, notes = _read(folder or (Path("reports"),))
    found = [series for series in history(samples) if not metric or series.metric in metric]
    notes += [f"{each.name} is left out: {each.partial}" for each in samples if each.partial]
    if not found:
        raise NotValidError("no record here has a metric to follow", "capacity and run records have them")
    text = _render(chosen, found, notes)
    if out is None:
        say(text.removesuffix("\n"))
    else:
        write_whole(out, [text])
        say(f"written to {out}")


def _read(folders: tuple[Path, ...]) -> tuple[list[Sample], list[str]]:
    """All records, each once, and what could not be read. Raises UsageError where nothing could."""
    from metrobench.errors import UsageError
    from metrobench.report.baseline import samples_of

    found: dict[tuple[str, str], Sample] = {}
    notes: list[str] = []
    failures: list[UsageError] = []
    for path in [each for folder in folders for each in _files(folder)]:
        try:
            found |= {(sample.created, sample.name): sample for sample in samples_of(path)}
        except UsageError as error:
            failures.append(error)
            notes.append(f"left out: {error.message}")
    if not found and failures:
        raise failures[0]
    return list(found.values()), notes


def _files(folder: Path) -> list[Path]:
    """Every run.json and every baseline file of a folder, one level deep too; a folder of pairs is read as well.

    Raises UsageError.
    """
    from metrobench.errors import UsageError
    from metrobench.report.baseline import is_baseline
    from metrobench.report.stored import RECORD

    if not folder.is_dir():
        if folder.is_file():
            return [folder]
        raise UsageError(f"{folder} does not exist", "give a folder of run folders")
    files = [file for pattern in (RECORD, f"*/{RECORD}", f"*/*/{RECORD}") for file in sorted(folder.glob(pattern))]
    files += [file for file in sorted(folder.glob("*.json")) if file.name != RECORD and is_baseline(file)]
    if not files:
        raise UsageError(f"{folder} holds no record ({RECORD})", "give a folder of run folders")
    return files


def _render(form: str, found: list[Series], notes: list[str]) -> str:
    import msgspec

    from metrobench.report.history import page, terminal

    if form == "html":
        return page.page(found, notes)
    if form == "json":
        whole = {"history": 1, "series": found, "notes": notes}
        return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"
    return terminal.text(found, notes) + "\n"
