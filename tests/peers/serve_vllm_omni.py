"""vllm-omni's own duplex transport over an engine that is none: it listens to every unit.

torch, vLLM and the rest that the transport imports and never calls are empty placeholders. Run in an environment
without them. usage: serve_vllm_omni.py WHEELS PORT [UNIT_MS] [SESSIONS]
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
import uuid
from pathlib import Path
from typing import Any

WHEELS, PORT = Path(sys.argv[1]).resolve(), int(sys.argv[2])
UNIT_MS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
SESSIONS = int(sys.argv[4]) if len(sys.argv) > 4 else 4
SAMPLES_A_MS = 16
MODEL = "toy"
_ABSENT = """
vllm_omni prettytable torch vllm transformers diffusers aenum janus omegaconf PIL prometheus_client zmq psutil librosa
soundfile cv2 av tqdm torchvision torchaudio ray regex cloudpickle huggingface_hub safetensors scipy einops xxhash yaml
cachetools
"""
ABSENT = _ABSENT.split()
"""Packages of which nothing but names is needed."""


class _Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Nothing(metaclass=_Meta):
    """Stands for any class, function or value of an absent package."""

    def __init__(self, *_, **__):
        pass

    def __class_getitem__(cls, key):
        return cls

    def __init_subclass__(cls, **_):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __call__(self, *arguments, **_):
        return arguments[0] if arguments and callable(arguments[0]) else Nothing()


class Placeholder(types.ModuleType):
    """An absent module."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Meta(name, (Nothing,), {})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last to be asked: only what is really missing is replaced."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Placeholder(spec.name)

    def exec_module(self, module):
        pass


def prepare() -> None:
    """Make the transport importable: packages whose own module imports the engine stand empty."""
    sys.path.insert(0, str(WHEELS))
    for name in ("vllm_omni", "vllm_omni.entrypoints", "vllm_omni.config"):
        parent = types.ModuleType(name)
        parent.__path__ = [str(WHEELS / name.replace(".", "/"))]
        sys.modules[name] = parent
    engines = types.ModuleType("vllm_omni.entrypoints.async_omni")
    engines.__getattr__ = lambda name: type(name, (), {})
    sys.modules[engines.__name__] = engines
    for name in ("platforms", "metrics", "diffusion", "inputs", "inputs.data", "outputs", "engine.duplex_omni_engine"):
        module = Placeholder(f"vllm_omni.{name}")
        module.__path__ = []
        sys.modules[module.__name__] = module
    sys.meta_path.append(Finder())


prepare()

import uvicorn  # noqa: E402
from fastapi import FastAPI, WebSocket  # noqa: E402
from vllm_omni.config.stage_config import DuplexSessionRuntimeConfig  # noqa: E402
from vllm_omni.engine.duplex import commands  # noqa: E402
from vllm_omni.engine.duplex.messages import DuplexSessionError  # noqa: E402
from vllm_omni.entrypoints.duplex.serving import OmniDuplexSessionHandler  # noqa: E402
from vllm_omni.entrypoints.duplex_omni import DuplexOmni, DuplexSessionHandle  # noqa: E402
from vllm_omni.protocol.duplex import events  # noqa: E402


class Table:
    """Stands for DuplexOmni: the sessions, and what answers them."""

    def __init__(self) -> None:
        self.handles: dict[str, Any] = {}
        self.samples: dict[str, int] = {}
        self.units: dict[str, int] = {}
        self.engine = self
        self.duplex_session_config = DuplexSessionRuntimeConfig()
        self.model = MODEL

    async def open_session(self, config=None, **_):
        resolve = DuplexOmni._resolve_session_config
        own = isinstance(DuplexOmni.__dict__.get("_resolve_session_config"), types.FunctionType)
        resolve(self, config, model=MODEL) if own else resolve(config, model=MODEL)
        if len(self.handles) >= SESSIONS:
            raise DuplexSessionError("duplex session capacity reached", code="resource_exhausted", session_id="")
        sid = f"duplex-{uuid.uuid4().hex}"
        handle = self.handles[sid] = DuplexSessionHandle(self, sid)
        self.samples[sid] = self.units[sid] = 0
        said = {"id": sid, "object": "realtime.session", "model": MODEL}
        handle._deliver(events.SessionCreated(session_id=sid, epoch=0, session=said))
        return handle

    async def submit_command_async(self, sid, command):
        if isinstance(command, commands.AppendAudio):
            self.samples[sid] += len(command.audio) // (4 if "f32" in (command.format or "") else 2)
            while self.samples[sid] >= (self.units[sid] + 1) * UNIT_MS * SAMPLES_A_MS:
                self.units[sid] += 1
                details = {"unit": self.units[sid], "elapsed_ms": self.units[sid] * UNIT_MS}
                self.handles[sid]._deliver(events.Listen(session_id=sid, epoch=0, details=details))
        elif type(command).__name__ in ("CloseSession", "SessionClose", "Close"):
            self.end(sid, "client_close")

    def get_session(self, sid):
        return self.handles.get(sid)

    def end(self, sid, reason):
        handle = self.handles.pop(sid, None)
        if handle is not None:
            handle._deliver(events.SessionClosed(session_id=sid, reason=reason))

    async def close_session(self, sid, *_, **given):
        self.end(sid, given.get("reason", "closed"))

    async def detach_session(self, sid, **_):
        self.end(sid, "detached")


handler = OmniDuplexSessionHandler(duplex_omni=Table())
app = FastAPI()


@app.websocket("/v1/realtime")
async def realtime(websocket: WebSocket):
    """The only route."""
    await handler.handle_realtime_session(websocket)


uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
