"""Where tests run side by side, those that share an expensive fixture or count processes stay together; no property
fails because the machine was slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

TOGETHER = ("worker", "kvwindow")
"""Folders whose tests share one loaded vLLM."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        room = item.path.relative_to(here).parts
        item.add_marker(pytest.mark.xdist_group(room[0] if room[0] in TOGETHER else "/".join(room)))
