"""`make test` looks for tests in real time in two folders only, since collecting all tests takes long."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
TIMED = re.compile(r"mark\.(realtime|alone)\b")


def test_tests_in_real_time_stand_where_make_test_looks_for_them() -> None:
    outside = [
        path
        for path in TESTS.rglob("test_*.py")
        if TIMED.search(path.read_text()) and path.relative_to(TESTS).parts[0] not in ("spec", "readme")
    ]
    assert outside == []


def test_make_test_looks_there() -> None:
    makefile = (TESTS.parent / "Makefile").read_text()
    assert '-m "realtime and not alone and not thorough" tests/spec tests/readme' in makefile
    assert "pytest -m alone tests/spec" in makefile
