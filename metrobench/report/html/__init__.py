"""Self-contained pages: no request, no script, dark and light."""

from __future__ import annotations

from metrobench.records import Record, RunFolder

NAME = "index.html"
"""The page's name in a run's folder."""


def write(folder: RunFolder, record: Record) -> str | None:
    """Write the page beside run.json; what went wrong, in words, where it could not be.

    A page that cannot be made never costs the measurement.
    """
    from metrobench.report.html.page import page
    from metrobench.report.stored import Stored
    from metrobench.report.view import look

    try:
        folder.write_text(NAME, page(look(Stored(folder.path, record), closely=True, judge=False)))
    except OSError as error:
        return f"the page could not be written to {folder.path}: {error.strerror}"
    except Exception as error:
        return f"the page could not be made: {type(error).__name__}: {error}"
    return None
