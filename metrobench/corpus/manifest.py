"""The list of clips in an audio folder: `manifest.jsonl`, one clip a line, with source, licence and checksum."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from metrobench.errors import UsageError
from metrobench.resources import data_folder

MANIFEST = "manifest.jsonl"


UNKNOWN = "und"
"""Language of a clip of which it is not known (ISO 639: undetermined)."""


class Clip(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the manifest."""

    file: str
    """Path inside the folder."""
    seconds: float
    language: str
    speaker: str
    transcript: str
    transcript_source: str
    human: bool
    """Spoken by a person, not generated."""
    kind: str
    source: str
    licence: str
    peak: float
    """Largest sample, 1.0 is full scale."""
    rms_dbfs: float
    sha256: str
    gain_db: float
    """Gain already applied to the file."""
    sample_rate: int
    """Hz of the file."""
    answer: list[str] | None = None
    """Where the clip is a question: words one of which a right answer holds."""
    label: Any = None
    """Where the clip is a command: the intent that it expresses, as its corpus writes it."""
    asr_check: str | None = None
    """What a recogniser heard in a generated clip."""
    asr_wer: float | None = None
    """Word error rate of `asr_check` against the transcript."""


def load_manifest(folder: Path) -> list[Clip]:
    """Clips of an audio folder, in the file's order. Raises UsageError with the line at fault."""
    path = folder / MANIFEST
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"no readable {MANIFEST} in {folder}: {error.strerror}") from error
    clips: list[Clip] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            clip = msgspec.json.decode(line, type=Clip)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} line {number} describes no clip", str(error)) from error
        inside = Path(clip.file)
        if inside.is_absolute() or ".." in inside.parts or not clip.file:
            raise UsageError(f"{path} line {number}: {clip.file!r} is not a path inside the folder")
        clips.append(clip)
    if not clips:
        raise UsageError(f"{path} lists no clips")
    return clips


def write_manifest(folder: Path, clips: list[Clip]) -> None:
    """Write or replace the list of an audio folder, in one step. Raises OSError."""
    partial = folder / f"{MANIFEST}.part"
    try:
        partial.write_bytes(b"".join(msgspec.json.encode(clip) + b"\n" for clip in clips))
        partial.replace(folder / MANIFEST)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def digest(path: Path) -> str:
    """SHA-256 of a file, as manifests have it. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path, clips: list[Clip]) -> list[str]:
    """One sentence for each clip that is missing or differs from its checksum; empty when all is well."""
    complaints = []
    for clip in clips:
        try:
            found = digest(folder / clip.file)
        except OSError as error:
            complaints.append(f"{clip.file}: {error.strerror}")
            continue
        if found != clip.sha256:
            complaints.append(f"{clip.file}: the checksum differs from the manifest")
    return complaints


def default_clips(language: str | None = None) -> tuple[Path, ...]:
    """Files of the shipped corpus, all or those of one language (`en`, `es`, ...). Raises UsageError."""
    folder = data_folder("audio_corpus")
    clips = [clip for clip in load_manifest(folder) if language is None or speaks(clip, language)]
    if not clips:
        raise UsageError(f"the shipped corpus has no clips in language {language!r}")
    return tuple(folder / clip.file for clip in clips)


def speaks(clip: Clip, language: str) -> bool:
    """The clip is in `language`; `en` holds en_us and en-GB as well."""
    own, asked = (tag.lower().replace("_", "-") for tag in (clip.language, language))
    return own == asked or own.startswith(asked + "-")
