"""`metrobench corpus`: the audio that sessions speak: what there is, is it whole, and more of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.corpus.catalog import Source
    from metrobench.corpus.keep import Kept, Looked
    from metrobench.corpus.packs import Pack

HOUR = 60.0
"""Minutes of speech that a pulled corpus keeps unless asked otherwise: three times what one run can take."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def corpus() -> None:
    """Audio corpora: what there is, is it whole, and more of it."""


@corpus.command("list")
@click.argument("name", required=False)
@options.as_json
@options.debug
def list_(name: str | None, as_json: bool) -> None:
    """The corpora that are here, or the clips of one.

    NAME is a corpus or a folder.
    """
    from metrobench.cli.output import say
    from metrobench.corpus.catalog import shown_names
    from metrobench.corpus.packs import SHIPPED, find_pack, installed
    from metrobench.errors import UsageError
    from metrobench.report.corpus_table import clips_table, packs_table

    if name is not None:
        pack = find_pack(name)
        say(_json(_pack_facts(pack) | {"clips": pack.clips}) if as_json else clips_table(pack))
        return
    packs, broken = [], []
    for known in (SHIPPED, *installed()):
        try:
            packs.append(find_pack(known))
        except UsageError as error:
            broken.append(error.message)
    for words in broken:
        click.echo(f"metrobench: {words}", err=True)
    if as_json:
        say(_json([_pack_facts(pack) for pack in packs]))
        return
    say(packs_table(packs))
    say("\n".join(["", "more by metrobench corpus pull:", *(f"  {more}" for more in shown_names())]))


@corpus.command()
@click.argument("name", required=False)
@options.as_json
@options.quiet
@options.debug
def verify(name: str | None, as_json: bool, quiet: bool) -> None:
    """Decode every file and compare checksums.

    NAME is a corpus or a folder; without it, the shipped corpus is looked at. Exit code 1: something is wrong.
    """
    from metrobench.cli.live import Live
    from metrobench.cli.output import say
    from metrobench.corpus.keep import look_at
    from metrobench.corpus.packs import find_pack
    from metrobench.report.corpus_table import summary, troubles

    pack = find_pack(name)
    live = Live(quiet or as_json)
    looked = look_at(pack, live.status)
    live.clear()
    wrong = [one for one in looked if one.health.problems]
    if as_json:
        say(_json(_pack_facts(pack) | {"files": [_looked_facts(one) for one in looked], "wrong": len(wrong)}))
    else:
        say("\n".join([summary(pack), *troubles(wrong), _finding(pack, len(wrong))]))
    sys.exit(1 if wrong else 0)


@corpus.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--name", metavar="NAME", help="What to call it. [default: the folder's name]")
@click.option("--language", metavar="CODE", help="What is spoken in it, for example en.")
@click.option("--human/--generated", default=None, help="Recorded people, or made by a machine. [default: human]")
@click.option("--licence", metavar="TEXT", help="Terms under which you have it.")
@click.option(
    "--transcripts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What is said: a table or lines of file and text (Common Voice, FLEURS, LibriSpeech's as they are).",
)
@options.minutes
@options.as_json
@options.quiet
@options.debug
def add(folder: Path, name: str | None, minutes: float | None, as_json: bool, quiet: bool, **told: Any) -> None:
    """Make a corpus of your own from a folder of audio files.

    Every file is decoded. Those that hold speech are copied, unchanged, to the data folder
    ($XDG_DATA_HOME/metrobench/corpora/NAME); the others are named and left out. Afterwards --audio NAME speaks it.
    """
    from metrobench.cli.live import Live
    from metrobench.cli.output import say
    from metrobench.corpus.keep import add_folder
    from metrobench.report.corpus_table import troubles

    live = Live(quiet or as_json)
    kept = add_folder(folder, name or folder.resolve().name, most_minutes=minutes, tell=live.status, **told)
    live.clear()
    if as_json:
        say(_json(_kept_facts(kept)))
        return
    lines = _kept_lines(kept)
    if kept.left_out:
        lines += [f"left out, of no use ({len(kept.left_out)}):", *troubles(kept.left_out)]
    if kept.doubtful:
        lines += [f"kept, but look at them ({len(kept.doubtful)}):", *troubles(kept.doubtful)]
    say("\n".join(lines))


@corpus.command()
@click.argument("name")
@options.minutes
@click.option("--limit", metavar="SIZE", help="Download only the beginning of the archive, for example 200MB.")
@click.option("--mirror", metavar="URL", help="Get the archive from this address; its checksum stays the same.")
@click.option("--yes", is_flag=True, help="Agree to the licence and the size without being asked.")
@options.as_json
@options.quiet
@options.debug
def pull(
    name: str,
    minutes: float | None,
    limit: str | None,
    mirror: str | None,
    yes: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Download a public corpus (LibriSpeech, FLEURS).

    NAME is librispeech-dev-clean, librispeech-test-clean or fleurs-LANGUAGE, for example fleurs-en_us.

    An hour of it is kept unless --minutes says otherwise, evenly from all speakers. A download that broke off goes on
    where it stopped when the same command is given again.
    """
    from metrobench.cli.live import Live
    from metrobench.cli.output import say
    from metrobench.corpus.catalog import find_source
    from metrobench.corpus.keep import check_name
    from metrobench.corpus.pull import pull as bring
    from metrobench.units import data_size, parse_size

    source = find_source(name)
    most_bytes = parse_size(limit, name="--limit") if limit is not None else None
    check_name(source.name)
    _agree(source, most_bytes, yes)
    live = Live(quiet or as_json)
    most_seconds = (minutes or HOUR) * 60.0
    try:
        pulled = bring(source, mirror=mirror, most_bytes=most_bytes, most_seconds=most_seconds, tell=live.status)
    except KeyboardInterrupt:
        live.line("interrupted; what has arrived stays, the same command goes on from there")
        raise
    finally:
        live.clear()
    if as_json:
        facts = {"archive_bytes": pulled.archive_bytes, "checksum": pulled.checked or None}
        say(_json(_kept_facts(pulled.kept) | facts | {"attribution": source.attribution, "page": source.page}))
        return
    how = f"its {pulled.checked} is right" if pulled.checked else "no checksum could be compared"
    say("\n".join([f"{data_size(pulled.archive_bytes)} downloaded, {how}", *_kept_lines(pulled.kept)]))


def _agree(source: Source, most_bytes: int | None, yes: bool) -> None:
    """Show what will be downloaded under which licence, and ask. Raises UsageError where nobody can be asked."""
    from metrobench.errors import UsageError
    from metrobench.report.corpus_table import aligned
    from metrobench.units import data_size

    size = most_bytes if source.size is None else min(source.size, most_bytes or source.size)
    facts = {
        "licence": f"{source.licence} ({source.page})",
        "credit": source.attribution,
        "download": "some hundred MB" if size is None else data_size(size),
    }
    click.echo("\n".join([source.title, *aligned(facts)]), err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nothing was downloaded: nobody is here to agree", "add --yes")
    if not click.confirm("Download it under this licence?", err=True):
        raise UsageError("nothing was downloaded")


def _finding(pack: Pack, wrong: int) -> str:
    count = len(pack.clips)
    if wrong:
        words = f"{wrong} of {count} files have something wrong with them"
    else:
        words = f"all {count} files decode{' and have the right checksum' if pack.listed else ''}"
    return words if pack.listed else f"{words}\n(no manifest here, so no checksums to compare)"


def _kept_lines(kept: Kept) -> list[str]:
    from metrobench.report.corpus_table import aligned, summary

    facts = {"kept in": str(kept.pack.folder), "speak it": f"--audio {kept.pack.name}"}
    return [summary(kept.pack), *aligned(facts)]


def _pack_facts(pack: Pack) -> dict[str, Any]:
    return {
        "name": pack.name,
        "folder": str(pack.folder),
        "listed": pack.listed,
        "count": len(pack.clips),
        "seconds": round(pack.seconds, 3),
        "human": round(pack.human, 3) if pack.listed else None,
        "languages": pack.languages,
        "licences": pack.licences,
    }


def _kept_facts(kept: Kept) -> dict[str, Any]:
    return _pack_facts(kept.pack) | {
        "left_out": [_looked_facts(one) for one in kept.left_out],
        "doubtful": [_looked_facts(one) for one in kept.doubtful],
    }


def _looked_facts(one: Looked) -> dict[str, Any]:
    import msgspec

    facts: dict[str, Any] = {"file": one.file, **msgspec.to_builtins(one.health)}
    return facts


def _json(facts: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(facts), indent=1).decode()
