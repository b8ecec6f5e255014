"""Wire protocols by name."""

from __future__ import annotations

import difflib
from importlib import import_module

from metrobench.endpoints.base import Access, Endpoint, EndpointBase, Stream
from metrobench.errors import UsageError

_CLASSES = {
    "realtime": "realtime:RealtimeEndpoint",
    "kyutai-stt": "kyutai:KyutaiEndpoint",
    "moshi": "moshi:MoshiEndpoint",
    "vllm-realtime": "vllm:VllmEndpoint",
    "vllm-omni": "omni:OmniEndpoint",
    "sglang-omni": "sglang:SglangOmniEndpoint",
    "openai": "openai:OpenAiEndpoint",
    "openai-beta": "openai:BetaEndpoint",
    "azure": "openai:AzureEndpoint",
    "qwen": "openai:QwenEndpoint",
    "unmute": "openai:UnmuteEndpoint",
    "openai-translation": "translation:TranslationEndpoint",
}
"""Module of this package and class of each protocol; imported when it is used."""
PROTOCOLS = tuple(_CLASSES)
"""Names that `make_endpoint` knows."""


def make_endpoint(
    protocol: str, url: str, *, unit: float, first_ready: float, sample_rate: int, access: Access | None = None
) -> Endpoint:
    """The endpoint of a protocol at an address. `unit` and `first_ready` in seconds. Raises UsageError."""
    kind = _find(protocol)
    return kind(url, unit=unit, first_ready=first_ready, sample_rate=sample_rate, access=access)


def needs_model(protocol: str) -> bool:
    """Whether the server must be told which of its models is meant."""
    return _find(protocol).needs_model


def fit(protocol: str, unit: float, sample_rate: int) -> Stream:
    """How a protocol cuts the audio for a model with frames of `unit` seconds at `sample_rate` Hz. Raises UsageError
    for an unknown name, or where protocol and model do not go together."""
    return _find(protocol).fit(unit, sample_rate)


def _find(protocol: str) -> type[EndpointBase]:
    if protocol not in _CLASSES:
        close = difflib.get_close_matches(protocol, PROTOCOLS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(PROTOCOLS)}"
        raise UsageError(f"unknown protocol {protocol!r}", hint)
    module, _, name = _CLASSES[protocol].partition(":")
    found: type[EndpointBase] = getattr(import_module(f"metrobench.endpoints.{module}"), name)
    return found
