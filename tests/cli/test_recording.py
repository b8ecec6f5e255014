"""How a record says that its command ended."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from metrobench.cli.live import Interrupted, Interrupts, Live
from metrobench.cli.recording import recording
from metrobench.errors import UnreachableError
from metrobench.records import RunFolder
from tests.report.made import blank


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGTERM, "interrupted"), (None, "failed")])
def test_what_a_stopped_part_complains_of_is_no_failure(tmp_path: Path, signum: int | None, status: str) -> None:
    """Workers that get the same signal may be gone before the command is."""
    record, folder = blank("run"), RunFolder.create(tmp_path, "x")
    with (
        pytest.raises(UnreachableError if signum is None else Interrupted),
        recording(record, folder, Live(quiet=True), Interrupts(), time.monotonic()),
    ):
        if signum is not None:
            os.kill(os.getpid(), signum)
        raise UnreachableError("the engine process died")
    assert record.status == status
    assert (record.error is None) == (signum is not None)
