"""docs/protocols.md says what the wire tests cover."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.spec.matrix import BEHAVIOURS, PAGE, ROWS, WIRE, cell, function_of, render


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.title)
def test_every_protocol_has_a_test_of_each_behaviour_or_a_reason(behaviour: object) -> None:
    assert [row for row in ROWS if not cell(behaviour, row)[0]] == []  # type: ignore[arg-type]


def test_every_test_of_the_table_is_there() -> None:
    for behaviour in BEHAVIOURS:
        for test in behaviour.tests:
            assert callable(function_of(test))


def test_every_wire_test_stands_in_the_table() -> None:
    listed = {test.partition("::")[2] for behaviour in BEHAVIOURS for test in behaviour.tests}
    written = {name for module in WIRE for name in vars(import_module(module)) if name.startswith("test_")}
    assert written - listed == set()


def test_the_page_is_what_the_tests_say() -> None:
    assert PAGE.read_text() == render(), "run: python -m tests.spec.matrix"
