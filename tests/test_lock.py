"""A run folder belongs to the process that measures into it, until that process is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from metrobench.lock import NAME, held, take


def test_a_folder_is_held_until_it_is_released(tmp_path: Path) -> None:
    assert not held(tmp_path)
    lock = take(tmp_path)
    assert lock is not None
    assert held(tmp_path)
    assert take(tmp_path) is None
    lock.release()
    lock.release()
    assert not held(tmp_path)
    assert not (tmp_path / NAME).exists()


def test_looking_changes_nothing(tmp_path: Path) -> None:
    held(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_killed_process_holds_nothing_any_more(tmp_path: Path) -> None:
    code = "import sys; from metrobench.lock import take; lock = take(sys.argv[1]); print('held', flush=True); input()"
    code = code.replace("sys.argv[1]", "__import__('pathlib').Path(sys.argv[1])")
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert held(tmp_path)
    process.kill()
    process.communicate()
    assert (tmp_path / NAME).exists()
    assert not held(tmp_path)


def test_a_child_started_meanwhile_does_not_inherit_the_folder(tmp_path: Path) -> None:
    lock = take(tmp_path)
    assert lock is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lock.release()
    assert take(tmp_path) is not None
    child.communicate(b"\n")
