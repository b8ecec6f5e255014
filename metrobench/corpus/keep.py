"""Corpora of the user's own: clips are looked at, copied as they are, and listed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from metrobench.corpus.health import Fault, Health, Problem, inspect
from metrobench.corpus.manifest import Clip, digest, write_manifest
from metrobench.corpus.packs import Pack, corpora_folder, open_pack, spread, valid_name
from metrobench.corpus.transcripts import Transcripts, find_text, read_transcripts
from metrobench.errors import UsageError
from metrobench.resources import check_room

NOTICE = "NOTICE.txt"

Tell = Callable[[str], None]
"""Shows progress, in a few words."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One file and its state."""

    file: str
    health: Health


@dataclass(frozen=True, slots=True)
class Kept:
    """A new corpus, and what of its source was not as it should be."""

    pack: Pack
    left_out: tuple[Looked, ...]
    """Files without use."""
    doubtful: tuple[Looked, ...]
    """Kept, though something is wrong with them."""


def check_name(name: str) -> Path:
    """The folder of a new corpus. Raises UsageError where it cannot be called that, or exists."""
    if not valid_name(name):
        raise UsageError(f"{name!r} cannot be the name of a corpus", "use letters, digits, - and _; give --name NAME")
    folder = corpora_folder() / name
    if folder.exists():
        raise UsageError(
            f"there is a corpus {name!r} already", f"delete {folder} to make it anew, or give another name"
        )
    return folder


def look_at(pack: Pack, tell: Tell) -> list[Looked]:
    """Every file of a corpus, decoded, and compared with the manifest where there is one."""
    looked = []
    for number, clip in enumerate(pack.clips, 1):
        tell(f"{number} of {len(pack.clips)} files looked at")
        health = inspect(pack.folder / clip.file)
        if pack.listed and health.seconds is not None and digest(pack.folder / clip.file) != clip.sha256:
            changed = Problem(Fault.CHECKSUM, "is not the file that the manifest lists (its checksum differs)")
            health = msgspec.structs.replace(health, problems=(changed, *health.problems))
        looked.append(Looked(clip.file, health))
    return looked


def add_folder(
    folder: Path,
    name: str,
    *,
    language: str | None,
    human: bool | None,
    licence: str | None,
    transcripts: Path | None,
    most_minutes: float | None,
    tell: Tell,
) -> Kept:
    """Make a corpus `name` of a folder of audio files. What is told here (not None) goes before what a manifest there
    says. Raises UsageError."""
    check_name(name)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", "give the folder that the audio files are in")
    texts = read_transcripts(transcripts) if transcripts is not None else {}
    pack = open_pack(str(folder), folder)
    clips = [_told(clip, pack, language, human, licence, texts) for clip in pack.clips]
    return keep(folder, spread(clips, most_minutes * 60.0) if most_minutes is not None else clips, name, tell)


def keep(source: Path, clips: Sequence[Clip], name: str, tell: Tell, notice: str = "") -> Kept:
    """Make a corpus `name` of the files of `clips` in `source`: those that hold speech are copied unchanged.

    What the files tell (length, level, rate, checksum) is measured; the rest of the manifest is as in `clips`.
    `notice` on origin and licence is kept beside it. The corpus appears at once and whole. Raises UsageError where no
    file is usable, or there is no room.
    """
    folder = check_name(name)
    partial = folder.with_name(f".{name}.part")
    check_room(folder, _bytes(source, clips))
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        kept, left_out, doubtful = _copy(source, clips, partial, tell)
        if not kept:
            first = left_out[0]
            raise UsageError(f"no file of {source} can be used", f"{first.file} {first.health.problems[0].text}")
        write_manifest(partial, kept)
        if notice:
            (partial / NOTICE).write_text(notice, encoding="utf-8")
        partial.rename(folder)
    except OSError as error:
        raise UsageError(f"cannot write to {folder.parent}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Kept(open_pack(name, folder), tuple(left_out), tuple(doubtful))


def _told(
    clip: Clip, pack: Pack, language: str | None, human: bool | None, licence: str | None, texts: Transcripts
) -> Clip:
    """A clip with what its owner says of it."""
    says: dict[str, Any] = {"language": language, "human": human, "licence": licence}
    if not pack.listed:
        says = {
            "human": human is not False,
            "source": str(pack.folder.resolve()),
            "language": language,
            "licence": licence,
        }
    if text := find_text(texts, clip.file):
        says |= {"transcript": text, "transcript_source": "corpus"}
    return msgspec.structs.replace(clip, **{key: value for key, value in says.items() if value is not None})


def _copy(source: Path, clips: Sequence[Clip], into: Path, tell: Tell) -> tuple[list[Clip], list[Looked], list[Looked]]:
    kept: list[Clip] = []
    left_out, doubtful = [], []
    for number, clip in enumerate(clips, 1):
        tell(f"{number} of {len(clips)} files looked at")
        health = inspect(source / clip.file)
        if not health.usable:
            left_out.append(Looked(clip.file, health))
            continue
        if health.problems:
            doubtful.append(Looked(clip.file, health))
        target = into / clip.file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / clip.file, target)
        kept.append(_measured(clip, health, target))
    return kept, left_out, doubtful


def _measured(clip: Clip, health: Health, file: Path) -> Clip:
    return msgspec.structs.replace(
        clip,
        seconds=health.seconds or 0.0,
        peak=health.peak or 0.0,
        rms_dbfs=health.rms_dbfs or 0.0,
        sample_rate=health.sample_rate or 0,
        sha256=digest(file),
    )


def _bytes(folder: Path, clips: Sequence[Clip]) -> int:
    """Bytes of the files of `clips`; those that are gone count as 0."""
    return sum(path.stat().st_size for path in (folder / clip.file for clip in clips) if path.is_file())
