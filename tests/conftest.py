"""Where tests run side by side, those that share an expensive fixture or count processes stay together, the longest
first; no property fails because the machine was slow."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["tests.loaded"]

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

TOGETHER = ("tests/worker", "tests/kvwindow")
"""Folders whose tests share one loaded vLLM."""
BESIDE = dict.fromkeys(
    ("tests/worker/test_ledger.py", "tests/worker/test_models.py", "tests/worker/test_warmup.py"), "tests/kvwindow"
)
"""Files that need vLLM or transformers in the tests' own process, as that folder's do."""
FIRST = (
    "tests/spec/test_nothing_lost.py",
    "tests/worker",
    "tests/kvwindow",
    "tests/readme/test_readme.py",
    "tests/spec/test_collapse_wire.py",
    "tests/spec/test_capacity_wire.py",
    "tests/quality/test_engine.py",
    "tests/test_install.py",
)
"""Groups that take half a minute or more: begun first, or one worker has them left when the others are done."""


def group(nodeid: str) -> str:
    """The folder of tests that share a loaded vLLM, else the file."""
    file = nodeid.partition("::")[0]
    folder = BESIDE.get(file, str(PurePosixPath(file).parent))
    return folder if folder in TOGETHER else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    turn = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: turn.get(group(item.nodeid), len(turn)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each group goes to one worker as a whole. Marks of xdist would say so too, but pytest 9 hides them from it."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)
