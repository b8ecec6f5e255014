"""The life of a record while a command measures: whatever happens, record and page are complete and readable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from metrobench.cli.live import Interrupted, Interrupts, Live
from metrobench.errors import MetrobenchError
from metrobench.records import Record, RunFolder
from metrobench.report import html


@contextmanager
def recording(
    record: Record,
    folder: RunFolder,
    live: Live,
    interrupts: Interrupts,
    began: float,
    tidy: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Run a command's body. Afterwards the record says how it ended, and its folder is closed.

    `began`: CLOCK_MONOTONIC seconds. `tidy` removes what only the body needed.
    """
    with interrupts:
        try:
            folder.write(record)
            yield
            record.status = "interrupted" if interrupts.signum else "complete"
        except Interrupted:
            record.status = "interrupted"
            raise
        except MetrobenchError as error:
            if interrupts.signum is not None:
                # what was stopped may end with a complaint of its own
                record.status = "interrupted"
                raise Interrupted(interrupts.signum) from error
            record.status, record.error = "failed", error.message
            raise
        except BaseException as error:
            record.status, record.error = "failed", f"{type(error).__name__}: {error}"
            if not folder.path.is_dir():
                raise MetrobenchError(f"{folder.path} was removed during the run", "measure again") from error
            raise
        finally:
            interrupts.finish()
            live.clear()
            tidy()
            record.wall_seconds = round(time.monotonic() - began, 1)
            if folder.path.is_dir():
                _write(record, folder, live)
            live.clear()
            folder.close()


def _write(record: Record, folder: RunFolder, live: Live) -> None:
    folder.write(record)
    live.status("writing the page")
    if complaint := html.write(folder, record):
        live.line(complaint)
