"""Records as JSON: run.json of one, a list of several."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from metrobench.records import Record


def text(records: Record | Sequence[Record]) -> str:
    """As run.json has it, one space of indent."""
    return msgspec.json.format(msgspec.json.encode(records), indent=1).decode()
