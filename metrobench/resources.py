"""One place that finds the data folders: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

from metrobench.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Folder `profiles` or `audio_corpus`. Raises UsageError when the installation lacks it."""
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        if (root / name).is_dir():
            return root / name
    raise UsageError(f"the {name} folder is missing from this installation", "reinstall metrobench")
