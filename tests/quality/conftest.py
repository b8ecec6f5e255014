"""A record of scripted models, for all that shows records."""

from __future__ import annotations

import msgspec
import pytest

from metrobench.environment import describe_machine
from metrobench.quality.analysis import analyse
from metrobench.records import SCHEMA, Record, plain
from metrobench.report.stored import Stored, open_record

from .test_probe import facts, window
from .toy import everything

KV = "unbounded,window:128,window:256,window:128+8"


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """A record of scripted models, read back from disk."""
    arms = [
        facts("unbounded", everything),
        facts("window:128", window(128, 0)),
        facts("window:256", window(256, 0)),
        facts("window:128+8", window(128, 8)),
    ]
    record = Record(
        schema=SCHEMA,
        kind="quality",
        status="complete",
        created="2026-12-01T10:00:00+00:00",
        command=["metrobench", "quality"],
        environment=describe_machine(),
        profile={"name": "toy"},
        setting={
            "kv": KV, "controls": ["window:256"], "weights": "toy", "endpoint": None, "window": 128, "sessions": 10,
            "questions": 24, "answer": 8, "temperature": 0.0,
        },
        seed=1,
        stand_in=False,
        result={"quality": plain(analyse(arms, 128, 1, 100, 100))},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("run")
    (folder / "run.json").write_bytes(msgspec.json.encode(record))
    return open_record(folder / "run.json")
