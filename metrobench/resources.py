"""One place that finds the data folders (beside the package in a checkout, inside it in a wheel) and the user's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from metrobench.errors import UsageError
from metrobench.units import data_size

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Folder `profiles` or `audio_corpus`. Raises UsageError when the installation lacks it."""
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        if (root / name).is_dir():
            return root / name
    raise UsageError(f"the {name} folder is missing from this installation", "reinstall metrobench")


def user_folder(name: str) -> Path:
    """Folder for what a user keeps, `$XDG_DATA_HOME/metrobench/NAME` (by default under ~/.local/share); it may not
    exist yet. Raises UsageError when there is no home to put it in."""
    return _xdg("XDG_DATA_HOME", ".local/share") / name


def cache_folder(name: str) -> Path:
    """Folder for what can be made again, `$XDG_CACHE_HOME/metrobench/NAME` (by default under ~/.cache); it may not
    exist yet. Raises UsageError when there is no home to put it in."""
    return _xdg("XDG_CACHE_HOME", ".cache") / name


def _xdg(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    try:
        # the XDG base directory specification: a relative path is to be ignored
        root = Path(base) if Path(base).is_absolute() else Path.home() / default
    except RuntimeError as error:
        raise UsageError("there is no home folder to keep things in", f"set {variable} to a folder") from error
    return root / "metrobench"


def check_room(folder: Path, needed: int) -> None:
    """Raises UsageError where `needed` bytes do not fit on the disk of `folder`, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UsageError(f"no room in {folder}: {data_size(needed)} needed, {data_size(free)} free")
