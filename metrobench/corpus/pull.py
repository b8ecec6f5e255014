"""A public corpus from its archive: downloaded, checked, unpacked, made a corpus of the user's own."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from metrobench.corpus.catalog import Source
from metrobench.corpus.decode import SUFFIXES, seconds_of
from metrobench.corpus.download import Arrived, Download, check_sum
from metrobench.corpus.keep import Kept, Tell, check_name, keep
from metrobench.corpus.manifest import Clip
from metrobench.corpus.packs import audio_files, corpora_folder, spread, unknown_clip
from metrobench.corpus.transcripts import Transcripts, find_text, read_transcripts
from metrobench.errors import NotValidError, UsageError
from metrobench.units import data_size

MAX_MEMBER = 200 << 20
"""Largest file that is taken out of an archive, bytes."""
DEPTH = 3
"""Folders and file names that are kept of an archive's paths, from the end: LibriSpeech has speaker/chapter/file."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What came of it."""

    kept: Kept
    archive_bytes: int
    checked: str
    """Which checksum was compared; empty: none."""


def pull(source: Source, *, mirror: str | None, most_bytes: int | None, most_seconds: float, tell: Tell) -> Pulled:
    """Bring a corpus here under its own name, at most `most_seconds` of it, evenly from all speakers.

    `most_bytes`: only the beginning of its archive, whose checksum cannot be compared then. `mirror`: another address
    of the archive. What a broken try left is used by the next one. Raises UnreachableError, NotValidError, UsageError.
    """
    check_name(source.name)
    downloads = corpora_folder() / ".downloads" / source.name
    texts: Transcripts = {}
    if source.texts is not None:
        texts = read_transcripts(_download(source.texts, downloads / "texts.tsv", None, tell).path)
    arrived = _download(mirror or source.url, downloads / "audio.tar.gz", most_bytes, tell)
    checked = _check(source, arrived)
    unpacked = downloads / "unpacked"
    try:
        shutil.rmtree(unpacked, ignore_errors=True)
        tell("unpacking")
        unpack(arrived.path, unpacked, whole=arrived.whole)
        if any(unpacked.rglob("*.trans.txt")):
            texts |= read_transcripts(unpacked)
        clips = spread(_clips(source, unpacked, texts), most_seconds)
        if not clips:
            raise NotValidError(f"the archive of {source.name} holds no audio", "give a larger --limit, or none")
        kept = keep(unpacked, clips, source.name, tell, _notice(source))
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    archive_bytes = arrived.path.stat().st_size
    shutil.rmtree(downloads, ignore_errors=True)
    return Pulled(kept, archive_bytes, checked)


def unpack(archive: Path, into: Path, *, whole: bool) -> None:
    """Take audio and text files out of a .tar.gz; of one that is not `whole`, those that are.

    Paths of the archive are shortened to their last DEPTH parts and never lead outside. Raises NotValidError for a
    broken archive, UsageError where there is no room.
    """
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                target = _target(member, into)
                stream = tar.extractfile(member) if target is not None else None
                if target is not None and stream is not None:
                    _extract(stream, target)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UsageError(f"cannot write to {into}: {error.strerror}") from error
        if whole:
            archive.unlink(missing_ok=True)
            raise NotValidError(
                f"the archive cannot be unpacked: {error}", "it was deleted; the same command gets it again"
            ) from error


def _extract(stream: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("wb") as file:
            shutil.copyfileobj(stream, file)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _target(member: tarfile.TarInfo, into: Path) -> Path | None:
    """Where a member goes; None: nowhere."""
    parts = [part for part in PurePosixPath(member.name).parts if part not in ("/", "..", ".")][-DEPTH:]
    wanted = bool(parts) and PurePosixPath(parts[-1]).suffix.lower() in SUFFIXES | {".txt"}
    return into.joinpath(*parts) if wanted and member.isfile() and member.size <= MAX_MEMBER else None


def _download(url: str, target: Path, most: int | None, tell: Tell) -> Arrived:
    def progress(here: int, total: int | None) -> None:
        of = f" of {data_size(total)}" if total else ""
        tell(f"{data_size(here)}{of}")

    return Download(url, target, progress, most).run()


def _notice(source: Source) -> str:
    return (
        f"{source.title}\n{source.attribution}\nLicence: {source.licence}\nFrom: {source.page}\n"
        "A selection of its clips; the clips themselves are unchanged.\n"
    )


def _check(source: Source, arrived: Arrived) -> str:
    if not arrived.whole:
        return ""
    if source.md5 is not None:
        check_sum(arrived.path, "md5", source.md5)
        return "md5"
    if arrived.sha256 is not None:
        check_sum(arrived.path, "sha256", arrived.sha256)
        return "sha256"
    return ""


def _clips(source: Source, folder: Path, texts: Transcripts) -> Iterator[Clip]:
    for path in audio_files(folder) if folder.is_dir() else ():
        clip = unknown_clip(path.relative_to(folder), seconds_of(path) or 0.0)
        text = find_text(texts, clip.file)
        speaker = f"{source.name}-{path.relative_to(folder).parts[0]}" if source.texts is None else ""
        yield msgspec.structs.replace(
            clip,
            language=source.language,
            speaker=speaker,
            transcript=text,
            transcript_source="corpus" if text else "",
            human=True,
            kind="read",
            source=source.page,
            licence=source.licence,
        )
