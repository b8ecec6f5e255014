"""The model that is probed: a folder with a checkpoint and its tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from metrobench.errors import UnreachableError, UsageError
from metrobench.quality import smollm2

SMOLLM2, HUB = "smollm2", "hf:"
NEEDED = ("config.json", "tokenizer.json")


def find(model: str, say: Callable[[str], None]) -> Path:
    """The folder of `--model`. Raises UsageError, UnreachableError; `say` is told what takes long."""
    if model == SMOLLM2:
        return smollm2.folder(say)
    place = _from_hub(model.removeprefix(HUB)) if model.startswith(HUB) else Path(model)
    if not place.is_dir():
        raise UsageError(f"--model {model} is neither smollm2, nor hf:ID, nor a folder")
    for name in NEEDED:
        if not (place / name).is_file():
            raise UsageError(f"--model {model}: {place} holds no {name}")
    return place


def name_of(model: str) -> str:
    """What reports call it."""
    if model == SMOLLM2:
        return "SmolLM2-135M-Instruct"
    return model.removeprefix(HUB) if model.startswith(HUB) else Path(model).resolve().name


def _from_hub(identifier: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(identifier, allow_patterns=["*.json", "*.safetensors", "*.model", "*.jinja"]))
    except HFValidationError as error:
        raise UsageError(f"--model hf:{identifier}: not the name of a model") from error
    except Exception as error:  # the hub's client passes on whatever its transport raises
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnreachableError(f"--model hf:{identifier} cannot be fetched: {why}", "or --model smollm2") from error
