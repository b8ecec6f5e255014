"""The options that the measuring commands share, as typed, and what they say before anything is looked up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from metrobench.errors import UsageError
from metrobench.policy import parse_policy


@dataclass(frozen=True, slots=True)
class Request:
    """The options that decide what is measured, as typed."""

    model: str
    budget: str | None
    miss_rate: str | None
    slo: str | None
    kv: str | None
    endpoint: str | None
    protocol: str
    weights: str
    pool_tokens: int | None
    seed: int
    restart_cmd: str | None = None
    health: str | None = None
    yes: bool = False
    vllm_args: tuple[str, ...] = ()
    audio: str | None = None
    language: str | None = None
    noise: str | None = None
    gain: str | None = None
    talk: str = "half"
    slow: str | None = None
    served_model: str | None = None
    headers: tuple[str, ...] = ()
    token_env: str | None = None
    token_file: str | None = None
    session: str | None = None
    ca_file: str | None = None
    insecure: bool = False
    record_wire: Path | None = None


def check_recording(request: Request) -> None:
    """Raises UsageError where --record-wire cannot be done."""
    path = request.record_wire
    if path is None:
        return
    if request.endpoint is None:
        raise UsageError("--record-wire goes with --endpoint")
    if path.exists():
        raise UsageError(f"--record-wire {path}: there is such a file", "name another one")
    if not path.parent.is_dir():
        raise UsageError(f"--record-wire {path}: there is no folder {path.parent}")


def several_policies(kv: str | None) -> list[str | None]:
    """The policies of `--kv`, each valid and no two the same; [None]: the profile's. Raises UsageError."""
    if kv is None:
        return [None]
    wanted: list[str | None] = [part.strip() for part in kv.split(",")]
    if len({str(parse_policy(part or "")) for part in wanted}) < len(wanted):
        raise UsageError(f"--kv {kv!r} names a policy twice")
    return wanted
