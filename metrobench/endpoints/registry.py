"""Wire protocols by name: those of this package, and those of packages with entry points for them."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

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
    "sglang-sessions": "sglang_sessions:SglangSessionsEndpoint",
    "minicpm-o": "minicpm:MiniCpmEndpoint",
    "minicpm-o-demo": "minicpm_demo:MiniCpmDemoEndpoint",
}
"""Module of this package and class of each protocol; imported when it is used."""
PROTOCOLS = tuple(_CLASSES)
"""Names that come with this package."""
GROUP = "metrobench.endpoints"
"""Entry points of this group name further protocols; each is a class on EndpointBase."""


def make_endpoint(
    protocol: str, url: str, *, unit: float, first_ready: float, sample_rate: int, access: Access | None = None
) -> Endpoint:
    """The endpoint of a protocol at an address. `unit` and `first_ready` in seconds. Raises UsageError."""
    kind = _find(protocol)
    return kind(url, unit=unit, first_ready=first_ready, sample_rate=sample_rate, access=access)


def needs_model(protocol: str) -> bool:
    """Whether the server must be told which of its models is meant."""
    return _find(protocol).needs_model


def converses(protocol: str) -> bool:
    """Whether it brings answers to questions."""
    return _find(protocol).converses


def schemes(protocol: str) -> tuple[str, ...]:
    """Schemes of a protocol's addresses. Raises UsageError for an unknown name."""
    return _find(protocol).schemes


def fit(protocol: str, unit: float, sample_rate: int) -> Stream:
    """How a protocol cuts the audio for a model with frames of `unit` seconds at `sample_rate` Hz. Raises UsageError
    for an unknown name, or where protocol and model do not go together."""
    return _find(protocol).fit(unit, sample_rate)


def _find(protocol: str) -> type[EndpointBase]:
    if protocol in _CLASSES:
        module, _, name = _CLASSES[protocol].partition(":")
        found: type[EndpointBase] = getattr(import_module(f"metrobench.endpoints.{module}"), name)
        return found
    others = {point.name: point for point in entry_points(group=GROUP)}
    if protocol in others:
        return _load(others[protocol])
    known = [*PROTOCOLS, *sorted(others)]
    close = difflib.get_close_matches(protocol, known, n=1)
    raise UsageError(
        f"unknown protocol {protocol!r}", f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
    )


def _load(point: EntryPoint) -> type[EndpointBase]:
    """Somebody else's protocol. Raises UsageError where it is none."""
    origin = f"protocol {point.name!r} of {point.dist.name if point.dist else point.value}"
    try:
        found = point.load()
    except Exception as error:  # whatever a foreign module does
        raise UsageError(f"{origin} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, EndpointBase)):
        raise UsageError(f"{origin} is no class on metrobench.endpoints.base.EndpointBase", f"it is {point.value}")
    return found
