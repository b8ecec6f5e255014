"""How long do the re-analysis and the page of a large record take? A batch of 20 trials of 64 sessions and 2 min, half
of which stall, and a search of 20 runs.

`python benchmarks/batch.py`: of each, seconds of `metrobench report` on it, a process of its own, against 2 s, the
size of its page against 5 MB, and, where there is a Chromium, seconds until the page is open, against 2 s.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.report import made
from tests.report.browser import Browser, installed

SECONDS, MEGABYTES, REPEATS = 2.0, 5.0, 5


def main() -> None:
    good = True
    with tempfile.TemporaryDirectory() as name:
        for what, folder in (("20 trials", made.batch(Path(name))), ("20 runs", made.long_search(Path(name)))):
            seconds = float(np.median([_report(folder) for _ in range(REPEATS)]))
            page = folder / "index.html"
            megabytes = page.stat().st_size / 1e6
            good &= seconds <= SECONDS and megabytes <= MEGABYTES
            line = f"{what}: re-analysed in {seconds:.2f} s (median of {REPEATS}, at most {SECONDS:g} s)"
            line += f", page {megabytes:.2f} MB (at most {MEGABYTES:g} MB)"
            if installed() is not None:
                opened = _open(page)
                good &= opened <= SECONDS
                line += f", open after {opened:.2f} s (at most {SECONDS:g} s)"
            print(line, flush=True)
    sys.exit(not good)


def _report(folder: Path) -> float:
    begin = time.perf_counter()
    command = [sys.executable, "-m", "metrobench", "report", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _open(page: Path) -> float:
    """Seconds in a browser that is running already. Raises AssertionError for a message or a request of the page."""
    with Browser() as browser:
        seen = [browser.show(page) for _ in range(REPEATS)]
    assert not any(each.messages or each.requests for each in seen)
    return float(np.median([each.opened for each in seen]))


if __name__ == "__main__":
    main()
