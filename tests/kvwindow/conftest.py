"""The plugin's tests never see a vLLM of another environment, whichever of them imports it first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.loaded import ENVIRONMENT

os.environ.update(ENVIRONMENT)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, vllm: None) -> Path:
    """Folder of the tiny models; models.py makes each on first use."""
    return tmp_path_factory.mktemp("models")
