"""What is wrong with an audio file, in words."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import msgspec
import numpy as np

from metrobench.corpus.decode import Sound, read_sound
from metrobench.corpus.mix import decibels, power
from metrobench.errors import UsageError
from metrobench.units import percent, seconds

SILENT_DBFS = -60.0
"""A file whose RMS is below this has no speech in it."""
FULL_SCALE = 0.999
"""From here on a sample counts as clipped; PCM16's largest is 0.99997."""
CLIPPED_SHARE = 0.001
"""Share of samples at full scale from which a file is called clipped."""
STREAMED = 0x7FFF_0000
"""A header that promises more bytes than this was written before the length was known."""


class Fault(StrEnum):
    """Kinds of trouble; the value is the name in JSON."""

    MISSING = "missing"
    CHECKSUM = "checksum"
    UNREADABLE = "unreadable"
    TRUNCATED = "truncated"
    SILENT = "silent"
    CLIPPED = "clipped"

    @property
    def fatal(self) -> bool:
        """The file is of no use."""
        return self in (Fault.MISSING, Fault.UNREADABLE, Fault.SILENT)


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with one file."""

    fault: Fault
    text: str
    """A clause that goes after the file's name."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """One audio file, decoded and looked at. The numbers are absent where it cannot be decoded."""

    problems: tuple[Problem, ...]
    seconds: float | None = None
    sample_rate: int | None = None
    channels: int | None = None
    format: str | None = None
    peak: float | None = None
    """Largest sample of any channel, 1.0 is full scale."""
    rms_dbfs: float | None = None
    """RMS of all channels' mean; absent for digital silence."""
    clipped: float | None = None
    """Share of samples at full scale."""

    @property
    def usable(self) -> bool:
        """It holds speech, if perhaps damaged."""
        return not any(problem.fault.fatal for problem in self.problems)


def inspect(path: Path) -> Health:
    """Decode a file and say what it is and what is wrong with it. Never raises for the file's sake."""
    if not path.is_file():
        return Health(problems=(Problem(Fault.MISSING, "is missing"),))
    try:
        sound = read_sound(path)
    except UsageError as error:
        return Health(problems=(Problem(Fault.UNREADABLE, error.message.removeprefix(f"audio file {path} ")),))
    level = decibels(power(sound.mono()))
    clipped = float(np.mean(np.abs(sound.samples) >= FULL_SCALE))
    return Health(
        problems=tuple(_problems(path, sound, level, clipped)),
        seconds=round(len(sound.samples) / sound.rate, 3),
        sample_rate=sound.rate,
        channels=sound.samples.shape[1],
        format=sound.format,
        peak=round(float(np.abs(sound.samples).max()), 3),
        rms_dbfs=None if level is None else round(level, 1),
        clipped=round(clipped, 6),
    )


def _problems(path: Path, sound: Sound, level: float | None, clipped: float) -> list[Problem]:
    found = []
    if lost := _lost(path, sound):
        found.append(Problem(Fault.TRUNCATED, lost))
    if level is None or level < SILENT_DBFS:
        found.append(Problem(Fault.SILENT, f"is silent ({_level(level)})"))
    if clipped >= CLIPPED_SHARE:
        found.append(Problem(Fault.CLIPPED, f"is clipped ({percent(clipped)} of its samples at full scale)"))
    return found


def _lost(path: Path, sound: Sound) -> str:
    """Words for a file that holds less than it should; empty when it is whole, or no one can tell."""
    if len(sound.samples) < sound.promised:
        whole, here = sound.promised / sound.rate, len(sound.samples) / sound.rate
        return f"is damaged: {seconds(here)} of {seconds(whole)} can be decoded"
    for promised, real in re.findall(r"(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", sound.log):
        if int(real) < int(promised) < STREAMED:
            return f"is cut short: {percent(int(real) / int(promised), 0)} of its data is there"
    if sound.format.startswith("OGG") and not _ogg_ends(path):
        return "is cut short: its last page is missing"
    return ""


def _ogg_ends(path: Path) -> bool:
    """The last Ogg page carries the mark `end of stream` (RFC 3533, header type flag 0x04)."""
    size = path.stat().st_size
    with path.open("rb") as file:
        # a page is at most 65,307 bytes
        file.seek(max(0, size - 65_307))
        tail = file.read()
    last = tail.rfind(b"OggS")
    return last >= 0 and last + 5 < len(tail) and bool(tail[last + 5] & 0x04)


def _level(level: float | None) -> str:
    return "every sample is 0" if level is None else f"{level:.0f} dBFS"
