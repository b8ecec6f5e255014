"""Where corpora are, and which of their clips a run takes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from random import Random

from metrobench.corpus.decode import SUFFIXES, seconds_of
from metrobench.corpus.manifest import MANIFEST, UNKNOWN, Clip, load_manifest, speaks
from metrobench.corpus.stream import MAX_CHUNKS
from metrobench.errors import UsageError
from metrobench.resources import data_folder, user_folder
from metrobench.units import CHUNK

SHIPPED = "default"
"""Name of the corpus that comes with metrobench."""
MOST_FILES = 200_000
"""Most audio files in one folder."""
TABLE_SECONDS = (MAX_CHUNKS - 1) * CHUNK
"""Most seconds of clips in one run."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One corpus: a folder of audio."""

    name: str
    folder: Path
    clips: tuple[Clip, ...]
    listed: bool
    """It has a manifest; else only files and lengths are known."""

    @property
    def seconds(self) -> float:
        """Seconds of all clips."""
        return total(self.clips)

    @property
    def human(self) -> float:
        """Share of its seconds that a person spoke; 0 where nothing is known."""
        return human_share(self.clips)

    @property
    def languages(self) -> list[str]:
        """Languages, the most spoken one first."""
        return by_seconds(self.clips, [clip.language for clip in self.clips])

    @property
    def licences(self) -> list[str]:
        """Licences, that of the most seconds first."""
        return by_seconds(self.clips, [clip.licence for clip in self.clips])


def find_pack(asked: str | None) -> Pack:
    """A corpus by name, or a folder with or without a manifest; None: the shipped one. Raises UsageError."""
    if asked in (None, SHIPPED):
        return open_pack(SHIPPED, data_folder("audio_corpus"))
    folder = Path(asked).expanduser()
    if asked and folder.is_dir():
        return open_pack(str(asked), folder)
    if asked and folder.exists():
        raise UsageError(f"{asked} is not a folder of audio files", "give the folder that it is in")
    if valid_name(asked) and (corpora_folder() / asked).is_dir():
        return open_pack(asked, corpora_folder() / asked)
    names = [SHIPPED, *installed()]
    near = get_close_matches(asked, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(names)}; `metrobench corpus pull` has more"
    raise UsageError(f"no corpus and no folder {asked!r}", hint)


def open_pack(name: str, folder: Path) -> Pack:
    """The corpus in `folder`. Raises UsageError where it holds no audio or its manifest is broken."""
    if (folder / MANIFEST).exists():
        return Pack(name, folder, tuple(load_manifest(folder)), True)
    clips = tuple(_unlisted(folder))
    if not clips:
        raise UsageError(f"no audio files in {folder}", "looked for .wav, .flac, .mp3, .opus, .ogg, .aiff and the like")
    return Pack(name, folder, clips, False)


def installed() -> list[str]:
    """Names of the corpora that were added or pulled."""
    folder = corpora_folder()
    if not folder.is_dir():
        return []
    return sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}") if valid_name(path.parent.name))


def corpora_folder() -> Path:
    """Where added and pulled corpora are kept."""
    return user_folder("corpora")


def valid_name(name: str) -> bool:
    """`name` may be the name of a corpus of the user's own."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)) and name != SHIPPED


def audio_files(folder: Path) -> Iterator[Path]:
    """Audio files in a folder and those below it, by their names' endings, in the order of their paths; hidden ones are
    left out. Raises UsageError where there are too many, or the folder cannot be read."""
    found = 0
    for root, folders, files in os.walk(folder, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                found += 1
                if found > MOST_FILES:
                    raise UsageError(f"more than {MOST_FILES} audio files in {folder}", "give a smaller folder")
                yield Path(root) / name


def choose(pack: Pack, language: str | None = None, most: float = TABLE_SECONDS) -> tuple[Clip, ...]:
    """Clips of one language, or all; where they are longer than `most` seconds, as many as fit, evenly from all
    speakers. Raises UsageError."""
    clips = [clip for clip in pack.clips if language is None or speaks(clip, language)]
    if not clips:
        known = [name for name in pack.languages if name != UNKNOWN]
        hint = f"it has {', '.join(known)}" if known else f"metrobench corpus add {pack.name} --language {language}"
        raise UsageError(f"corpus {pack.name} has no clips marked as {language!r}", hint)
    return tuple(clips) if total(clips) <= most else tuple(spread(clips, most))


def spread(clips: Iterable[Clip], most: float) -> list[Clip]:
    """Up to `most` seconds of `clips`, and at least one clip: speakers take turns, each giving its clips in an order
    that is fixed but otherwise random. The result keeps the order of `clips`."""
    order = list(clips)
    mixed = sorted(order, key=lambda clip: clip.file)
    Random(0).shuffle(mixed)
    turns: dict[str, int] = {}
    ranked = []
    for clip in mixed:
        turns[clip.speaker] = turns.get(clip.speaker, 0) + 1
        ranked.append((turns[clip.speaker], clip))
    kept: set[str] = set()
    left = most
    for _, clip in sorted(ranked, key=lambda pair: pair[0]):
        if clip.seconds <= left:
            kept.add(clip.file)
            left -= clip.seconds
    if not kept and order:
        kept.add(min(order, key=lambda clip: clip.seconds).file)
    return [clip for clip in order if clip.file in kept]


def total(clips: Iterable[Clip]) -> float:
    """Seconds of all clips."""
    return sum(clip.seconds for clip in clips)


def human_share(clips: Iterable[Clip]) -> float:
    """Share of the seconds that a person spoke."""
    known = list(clips)
    return total(clip for clip in known if clip.human) / max(total(known), 1e-9)


def by_seconds(clips: Iterable[Clip], keys: Iterable[str]) -> list[str]:
    """The distinct keys of clips, that of the most seconds first."""
    sums: dict[str, float] = {}
    for clip, key in zip(clips, keys, strict=True):
        sums[key] = sums.get(key, 0.0) + clip.seconds
    return sorted(sums, key=lambda key: (-sums[key], key))


def _unlisted(folder: Path) -> Iterator[Clip]:
    for path in audio_files(folder):
        # a file that cannot be read stays in the list: whoever decodes it says what is wrong
        yield unknown_clip(path.relative_to(folder), seconds_of(path) or 0.0)


def unknown_clip(file: Path, seconds: float) -> Clip:
    """A clip of which only name and length are known."""
    return Clip(
        file=str(file),
        seconds=round(seconds, 3),
        language=UNKNOWN,
        speaker=file.parts[0] if len(file.parts) > 1 else "",
        transcript="",
        transcript_source="",
        human=False,
        kind="",
        source="",
        licence="",
        peak=0.0,
        rms_dbfs=0.0,
        sha256="",
        gain_db=0.0,
        sample_rate=0,
    )


def _unreadable(error: OSError) -> None:
    raise UsageError(f"cannot read {error.filename}: {error.strerror}") from error
