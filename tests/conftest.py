"""Where tests run side by side, those that share an expensive fixture or count processes stay together, the longest
first; no property fails because the machine was slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

TOGETHER = ("worker", "kvwindow")
"""Folders whose tests share one loaded vLLM."""
FIRST = ("spec/test_nothing_lost.py", "kvwindow", "worker", "spec/test_capacity_wire.py", "test_install.py")
"""Groups that take a minute or more: begun first, or one worker has them left when the others are done."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_room(item)))
    items.sort(key=_turn)


def _room(item: pytest.Item) -> str:
    """The folder of tests that share a loaded vLLM, else the file."""
    room = item.path.relative_to(Path(__file__).parent).parts
    return room[0] if room[0] in TOGETHER else "/".join(room)


def _turn(item: pytest.Item) -> int:
    """Place of an item's group among those begun first."""
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group else ""
    return FIRST.index(name) if name in FIRST else len(FIRST)
