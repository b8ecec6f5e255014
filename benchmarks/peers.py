"""`metrobench check`, `capacity` and `run` against every real peer that is installed here, one after another.

    make .peers/.moshi .peers/.voxtral .peers/.qwen3asr .peers/.wire        # once; or make test-peers
    python -m benchmarks.peers [--out build/peers] [--only moshi,vllm-voxtral] [--seconds 100]

About 20 minutes on a quiet machine of two cores at --seconds 100; Voxtral and Qwen3-ASR want 300 and more. What is done
is kept in --out, so that a run that was cut off goes on; another folder begins anew. Prints one table. The last column
is what the wire says of the first answer: the audio that it needs as metrobench assumes it, and the earliest at which
answer k came, less k frames.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from metrobench.endpoints.base import Kind
from metrobench.endpoints.registry import make_endpoint
from metrobench.load.tape import read_tape
from tests.peers import moshi_servers, vllm_server, wire_servers
from tests.peers.launch import free_port, running, wait_up

ROOT = Path(__file__).parents[1]
RUN, RUN_LIMIT = "10s", 240.0
"""Length of the run at the capacity that was found; seconds it may take: segments of 5 s make it longer, and longer
still where it is extended."""
PATIENCE = 120.0
"""Seconds that a command may take beyond the time it was given."""


Start = Callable[[Path], contextlib.AbstractContextManager[str]]
"""The address of a server whose words go to a file; pytest's Skipped where it is not installed."""


@dataclass(frozen=True)
class Peer:
    """A server of somebody else, and how it is measured."""

    name: str
    start: Start
    protocol: str
    model: str
    sessions: int
    """Most that are tried."""
    budget: str | None = None
    """None: the model's own."""
    guess: int | None = None
    """Sessions of the first run, where a run takes so long that there is no time to come near; None: it is found."""


@contextlib.contextmanager
def own_server(log: Path) -> Iterator[str]:
    """metrobench's own, which admits everybody."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("no vLLM here")
    port = free_port()
    words = ["serve", "--model", "minicpm-o", "--admission", "none", "--port", str(port)]
    with running([[sys.executable, "-m", "metrobench", *words]], log) as (process,):
        wait_up(port, "/health", 200, process, log)
        yield f"ws://127.0.0.1:{port}/v1/realtime"


def voxtral_server(log: Path) -> contextlib.AbstractContextManager[str]:
    """Its sessions outlive a run that is extended: one whose context is full ends."""
    return vllm_server.vllm_server(log, positions=4096)


def wire(start: Callable[..., contextlib.AbstractContextManager[str]], *arguments: int) -> Start:
    """A wire layer with its arguments."""
    return lambda log: start(log, *arguments)


PEERS = {
    "moshi": Peer("moshi 0.2.13, 2 servers", lambda log: moshi_servers.moshi_servers(2, log), "moshi", "moshi", 4),
    "vllm-omni": Peer("vllm-omni 0.30 wire, 2 places", wire(wire_servers.vllm_omni, 80, 2), "vllm-omni", "moshi", 4),
    "sglang-omni": Peer(
        "sglang-omni 0.1.9 wire, 30 ms a unit", wire(wire_servers.sglang_omni, 30, 8), "sglang-omni", "moshi", 8
    ),
    "vllm-voxtral": Peer("vLLM 0.32, tiny Voxtral", voxtral_server, "vllm-realtime", "voxtral-realtime", 32, "400ms"),
    "vllm-qwen3-asr": Peer(
        "vLLM 0.32, tiny Qwen3-ASR", vllm_server.qwen3_asr_server, "vllm-realtime", "qwen3-asr", 64, guess=32
    ),
    "serve": Peer("metrobench serve", own_server, "realtime", "minicpm-o", 400),
}
"""By the names to ask for them."""


def command(folder: Path, step: str, *words: str, limit: float) -> dict[str, Any]:
    """The record of a command, kept in the peer's folder: done only where it is not there yet."""
    kept = folder / f"{step}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    began = time.monotonic()
    asked = [sys.executable, "-m", "metrobench", *words, "--json", "--out", str(folder / "reports")]
    env = dict(os.environ, PYTHONPATH=str(ROOT))
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=limit + PATIENCE, cwd=ROOT, env=env)
    except subprocess.TimeoutExpired:
        return {"failed": f"{step} took longer than {limit + PATIENCE:.0f} s"}
    if not done.stdout:
        said = (done.stderr.strip().splitlines() or ["no word"])[0]
        return {"failed": f"{step} ended with {done.returncode}: {said.removeprefix('metrobench: ')[:80]}"}
    record = {"exit": done.returncode, "seconds": time.monotonic() - began, **json.loads(done.stdout)}
    kept.write_text(json.dumps(record))
    return record


def first_answer(tape: Path) -> str:
    """Audio that answer 0 needs, as assumed, and the least that any answer said of it, from a recording."""
    said = read_tape(tape)
    head = said.head
    endpoint = make_endpoint(
        head.protocol, "ws://h/", unit=head.unit, first_ready=head.first_ready, sample_rate=head.sample_rate
    )
    decode = endpoint.decoder()
    seen: list[float] = []
    # after the client's last word a server may flush what it holds back, all at once
    words = [place for place, entry in enumerate(said.entries) if entry.who != "server" and entry.t is not None]
    for entry in said.entries[: words[-1] if words else None]:
        if entry.who != "server" or entry.close is not None:
            continue
        found = decode(entry.payload)
        if found.kind is Kind.FRAME_DONE and entry.t is not None:
            seen += [entry.t - (len(seen) + place) * head.unit for place in range(found.count)]
    if not seen:
        return "no answer counted"
    k0 = max(0, int(head.first_ready / head.unit + 1e-6) - 1)
    rest = head.first_ready - (k0 + 1) * head.unit
    ahead = f" + {rest * 1e3:g} ms" if rest > 1e-6 else ""
    return f"k0 = {k0}{ahead}: {head.first_ready * 1e3:g} ms, seen {min(seen) * 1e3:.0f} ms"


def measure(peer: Peer, folder: Path, seconds: float) -> list[str]:
    """A row of the table."""
    done = folder / "row.json"
    if done.exists():
        return list(json.loads(done.read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    with peer.start(folder / "server.log") as url:
        where = ["--endpoint", url, "--protocol", peer.protocol, "--model", peer.model]
        where += ["--budget", peer.budget] if peer.budget else []
        tape = folder / "wire.jsonl"
        if not (folder / "check.json").exists():
            tape.unlink(missing_ok=True)
        check = command(folder, "check", "check", *where, "--record-wire", str(tape), limit=60.0)
        limits = ["--effort", "quick", "--max-time", f"{seconds:.0f}s", "--max-sessions", str(peer.sessions), "--yes"]
        limits += ["--guess", str(peer.guess)] if peer.guess else []
        capacity = command(folder, "capacity", "capacity", *where, *limits, limit=seconds)
        low = (capacity.get("result") or {}).get("mscs", {}).get("lo") or 1
        run = command(folder, "run", "run", *where, "--sessions", str(low), "--duration", RUN, limit=RUN_LIMIT)
    row = row_of(peer, check, capacity, run, first_answer(tape) if tape.exists() else "no recording")
    if proves_nothing(capacity) or proves_nothing(run):
        for step in ("capacity", "run"):
            (folder / f"{step}.json").unlink(missing_ok=True)
    elif not any("failed" in record for record in (check, capacity, run)):
        done.write_text(json.dumps(row))
    return row


def proves_nothing(record: dict[str, Any]) -> bool:
    """This machine had no time for it: the next call measures again."""
    outcomes = {probe["outcome"] for probe in record.get("probes", [])}
    return outcomes == {"void"}


def row_of(peer: Peer, check: dict[str, Any], capacity: dict[str, Any], run: dict[str, Any], first: str) -> list[str]:
    """What the records say."""
    if failed := [record["failed"] for record in (check, capacity, run) if "failed" in record]:
        return [peer.name, peer.protocol, "", "none", failed[0], "", "", first]
    result, (last,) = capacity["result"] or {}, run["probes"]
    mscs = result.get("mscs", {"lo": None, "hi": None})
    low, high = (mscs[end] or "?" for end in ("lo", "hi"))
    limit = result["limited_by"]["limit"] if result else f"nothing found: exit {capacity['exit']}"
    misses = last["verdict"]["misses"]
    shown = f"{last['sessions']}: {last['outcome']}, {misses['missed']} of {misses['due']} missed"
    probes = [*capacity["probes"], last]
    void = sum(probe["outcome"] == "void" for probe in probes)
    frame_class = check["setting"]["frame_class"]
    return [peer.name, peer.protocol, frame_class, f"[{low}, {high}]", limit, shown, f"{void} of {len(probes)}", first]


HEADINGS = ["peer", "protocol", "class", "capacity", "limited by", "run at the lower end", "void", "first answer"]


def table(rows: list[list[str]]) -> str:
    """The rows under their headings, in columns."""
    whole = [HEADINGS, *([*row, *[""] * (len(HEADINGS) - len(row))] for row in rows)]
    widths = [max(len(row[place]) for row in whole) for place in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in whole
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--only", help=f"some of {','.join(PEERS)}")
    parser.add_argument("--seconds", type=float, default=100.0, help="most that one search for a capacity may take")
    options = parser.parse_args()
    asked = options.only.split(",") if options.only else list(PEERS)
    if unknown := [name for name in asked if name not in PEERS]:
        parser.error(f"no such peer: {unknown[0]}; known: {', '.join(PEERS)}")
    rows = []
    for name in asked:
        print(f"{name} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            rows.append(measure(PEERS[name], options.out.resolve() / name, options.seconds))
        except pytest.skip.Exception as reason:
            rows.append([PEERS[name].name, PEERS[name].protocol, "", "none", f"not run: {reason}"])
        except pytest.fail.Exception as reason:
            rows.append([PEERS[name].name, PEERS[name].protocol, "", "none", f"did not start: {str(reason)[:80]}"])
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
