"""Which protocol an endpoint speaks, from its address and from the first thing it says. Pure."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from metrobench.endpoints.base import UNREADABLE

_HOSTS = (("openai.azure.com", "azure"), ("dashscope", "qwen"), ("modelbest.cn", "minicpm-o"))
_PATHS = (
    ("/api/asr-streaming", "kyutai-stt"),
    ("/api/chat", "moshi"),
    ("/realtime/translations", "openai-translation"),
    ("/v1/duplex", "vllm-omni"),
    ("/ws/duplex", "minicpm-o-demo"),
)
_TYPES = {
    **dict.fromkeys(("session.queued", "session.queue_update", "session.queue_done"), "minicpm-o"),
    **dict.fromkeys(("queued", "queue_update", "queue_done"), "minicpm-o-demo"),
}
"""First events that only one protocol has."""


def from_address(url: str) -> str | None:
    """A protocol that has an address of its own."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        return "sglang-sessions"
    host, path = parts.hostname or "", parts.path
    for part, protocol in _HOSTS:
        if part in host:
            return protocol
    for part, protocol in _PATHS:
        if part in path:
            return protocol
    return "vllm-omni" if "duplex=1" in parts.query else None


def from_greeting(payload: bytes) -> str | None:
    """A protocol by the server's first message; None: not known."""
    if payload[:1] == b"\x00" and len(payload) <= 9:
        return "moshi"
    try:
        event: Any = msgspec.json.decode(payload)
    except UNREADABLE:
        return _packed(payload)
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return None
    if event["type"] != "session.created":
        return _TYPES.get(event["type"])
    session = event.get("session")
    if not isinstance(session, dict):
        return "vllm-realtime" if isinstance(event.get("id"), str) else None
    if "metrobench" in session:
        return "realtime"
    if "sglang" in session:
        return "sglang-omni"
    if str(session.get("id", "")).startswith("duplex-"):
        return "vllm-omni"
    if session.get("type") == "translation":
        return "openai-translation"
    return "openai-beta" if "input_audio_format" in session else "openai"


def _packed(payload: bytes) -> str | None:
    try:
        event: Any = msgspec.msgpack.decode(payload)
    except UNREADABLE:
        return None
    return "kyutai-stt" if isinstance(event, dict) and event.get("type") == "Ready" else None
