"""What the sessions of a command say: the audio that its options name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metrobench.corpus.manifest import Clip
from metrobench.corpus.mix import Noise, parse_noise
from metrobench.corpus.packs import Pack, choose, find_pack, human_share, total
from metrobench.corpus.pattern import TALK
from metrobench.errors import UsageError
from metrobench.units import parse_decibels

QUIETEST, LOUDEST = -40.0, 40.0
"""Gains that may be asked for, dB."""


@dataclass(frozen=True, slots=True)
class Audio:
    """Clips, and what is done to them."""

    pack: Pack
    language: str | None
    clips: tuple[Clip, ...]
    noise: Noise | None
    gain: float
    """dB."""
    talk: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the clips."""
        return tuple(self.pack.folder / clip.file for clip in self.clips)

    def describe(self) -> dict[str, Any]:
        """What a record says of it, all of it deciding what is sent. Raises UsageError where a file cannot be read."""
        return {
            "audio": self.pack.name,
            "language": self.language,
            "noise": str(self.noise) if self.noise else None,
            "gain_db": self.gain,
            "talk": self.talk,
            "clips": [clip.file for clip in self.clips],
            "audio_seconds": round(total(self.clips), 1),
            "audio_human": round(human_share(self.clips), 3) if self.pack.listed else None,
            "audio_sha256": self._digest(),
        }

    def _digest(self) -> str:
        """One checksum for all clips, in their order."""
        whole = hashlib.sha256()
        for file in self.files:
            try:
                whole.update(file.read_bytes())
            except OSError as error:
                hint = f"metrobench corpus verify {self.pack.name}"
                raise UsageError(f"audio file {file} cannot be read: {error.strerror}", hint) from error
        return whole.hexdigest()


def choose_audio(
    audio: str | None = None,
    language: str | None = None,
    noise: str | None = None,
    gain: str | None = None,
    talk: str = "half",
) -> Audio:
    """The audio of a command from its options as typed; without any, the shipped corpus as it is. Raises UsageError."""
    if talk not in TALK:
        raise UsageError(f"unknown --talk {talk!r}", f"known: {', '.join(TALK)}")
    added = parse_noise(noise) if noise is not None else None
    level = parse_decibels(gain, name="--gain", low=QUIETEST, high=LOUDEST) if gain is not None else 0.0
    pack = find_pack(audio)
    return Audio(pack, language, choose(pack, language), added, level, talk)
