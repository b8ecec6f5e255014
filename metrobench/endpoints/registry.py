"""Wire protocols by name."""

from __future__ import annotations

import difflib

from metrobench.endpoints.base import Endpoint
from metrobench.endpoints.realtime import RealtimeEndpoint
from metrobench.errors import UsageError

PROTOCOLS = ("realtime",)
"""Names that `make_endpoint` knows."""


def make_endpoint(protocol: str, url: str, *, unit: float, first_ready: float, sample_rate: int) -> Endpoint:
    """The endpoint of a protocol at an address. `unit` and `first_ready` in seconds. Raises UsageError."""
    if protocol == "realtime":
        return RealtimeEndpoint(url, unit=unit, first_ready=first_ready, sample_rate=sample_rate)
    close = difflib.get_close_matches(protocol, PROTOCOLS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(PROTOCOLS)}"
    raise UsageError(f"unknown protocol {protocol!r}", hint)
