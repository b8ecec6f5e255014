"""The cause of an engine's end is found in vLLM's log."""

from pathlib import Path

import pytest

from metrobench.worker import cause


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ValueError: no room\n", ("ValueError", "no room")),
        ("(EngineCore pid=7) ERROR 11-30 01:22:32 [core.py:1510] ValueError: no room\n", ("ValueError", "no room")),
        ("torch.OutOfMemoryError: 2 GiB\n", ("OutOfMemoryError", "2 GiB")),
        ("KeyError: 1\n    raise ValueError: x\nRuntimeError: last\nmore\n", ("RuntimeError", "last")),
        ("INFO all is well\n    ValueError: quoted\n", None),
        ("", None),
    ],
)
def test_the_last_exception_is_found(text: str, found: tuple[str, str] | None, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("OSError: of an earlier worker\n")
    start = cause.size(log)
    with log.open("a") as file:
        file.write(text)
    assert cause.last_raised(log, start) == found


def test_without_a_log_there_is_no_cause(tmp_path: Path) -> None:
    assert cause.size(tmp_path / "none") == 0
    assert cause.last_raised(tmp_path / "none", 0) is None
