from __future__ import annotations

import pytest

from metrobench.measure.warnings import Warn


@pytest.mark.parametrize("warning", Warn)
def test_every_warning_has_advice_in_sentences_and_a_name_fit_for_records(warning: Warn) -> None:
    assert warning.advice.endswith(".") and len(warning.advice) > 30
    assert warning.value == warning.value.lower() and " " not in warning.value
