"""`metrobench serve`: the embedded worker alone, as a realtime WebSocket endpoint."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from metrobench.cli import options

if TYPE_CHECKING:
    from metrobench.worker.launcher import Worker


@click.command()
@options.model
@options.worker
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option(
    "--port", type=options.Whole(0, 65_535), default=8910, show_default=True, metavar="N", help="0: any free port."
)
@click.option(
    "--max-sessions",
    type=options.Whole(1, options.MAX_SESSIONS),
    default=256,
    show_default=True,
    metavar="N",
    help="Sessions admitted; further ones are refused.",
)
@options.admission("aimd+kv")
@options.order
@options.budget
@options.seed
@options.debug
@options.vllm_args
def serve(
    model: str,
    kv: str | None,
    weights: str,
    pool_tokens: int | None,
    slow: str | None,
    host: str,
    port: int,
    max_sessions: int,
    admission: str | None,
    order: str,
    budget: str | None,
    seed: int,
    vllm_args: tuple[str, ...],
) -> None:
    """The embedded worker alone, as a realtime WebSocket endpoint."""
    from metrobench.admission.choice import AIMD_KV, parse_admission
    from metrobench.cli.live import Interrupts, Live
    from metrobench.cli.vllm_args import parse_vllm
    from metrobench.environment import describe_machine
    from metrobench.errors import UnreachableError
    from metrobench.policy import parse_policy
    from metrobench.profiles import load_profile
    from metrobench.servers import check_room, resolve_weights
    from metrobench.units import parse_duration, parse_rate
    from metrobench.worker.cores import layout
    from metrobench.worker.launcher import ForkServer, need_vllm
    from metrobench.worker.spec import STANDIN, WorkerSpec
    from metrobench.worker.turnstile import parse_order

    choice, ordered = parse_admission(admission or AIMD_KV), parse_order(order)
    profile = load_profile(model)
    limit = parse_duration(budget, name="--budget") if budget else profile.budget
    gpu = bool(describe_machine().gpus)
    chosen = resolve_weights(weights, has_gpu=gpu)
    policy = parse_policy(kv or profile.kv, profile.stand_in.block_size if chosen == STANDIN else 1)
    check_room(profile, policy, pool_tokens)
    need_vllm()
    arguments = parse_vllm(vllm_args)
    slowed = parse_rate(slow, name="--slow") if slow else 0.0
    cores = layout(gpu=gpu)
    live = Live(quiet=False)
    _check_address(host, port)
    # several may ask for any free port
    log = Path(tempfile.gettempdir()) / f"metrobench-serve-{port or f'pid-{os.getpid()}'}.log"
    with Interrupts() as interrupts:
        spec = WorkerSpec(
            profile=profile,
            policy=policy,
            max_sessions=max_sessions,
            pool_tokens=pool_tokens,
            weights=chosen,
            seed=seed,
            front_cores=cores.front,
            engine_cores=cores.engine,
            log=log,
            host=host,
            port=port,
            vllm_args=arguments,
            admission=choice,
            budget=limit,
            order=ordered,
            slow=slowed,
        )
        live.status("loading vLLM (about 10 s)")
        forkserver = ForkServer(log, profile.stand_in if chosen == STANDIN else None)
        with interrupts.at_once():
            forkserver.start()
        with forkserver:
            worker = forkserver.launch(spec)
            live.clear()
            _announce(worker)
            while interrupts.signum is None:
                if (death := worker.death()) is not None:
                    raise UnreachableError(f"the worker died: {death}")
                time.sleep(0.2)
            worker.kill()
    log.unlink(missing_ok=True)
    sys.exit(128 + interrupts.signum)


def _announce(worker: Worker) -> None:
    """Who listens where, on stdout."""
    from metrobench.cli.output import say
    from metrobench.units import rate
    from metrobench.worker.spec import DUMMY

    spec = worker.spec
    kind = "a stand-in" if spec.stand_in else "dummy weights" if spec.weights == DUMMY else spec.weights
    who = f"admission {spec.admission}, at most {spec.max_sessions} sessions"
    who += f", order {spec.order}" if spec.order.most else ""
    say(f"{spec.profile.name} ({kind}) · {worker.info.policy} · {who}")
    if spec.slow:
        say(f"every engine step is made {rate(spec.slow)} longer on purpose (--slow)")
    say(f"listening on {worker.url} · Ctrl-C ends it")
    say(f"log {spec.log}")


def _check_address(host: str, port: int) -> None:
    """Raises UnreachableError when nothing could listen there: known before vLLM is loaded."""
    from metrobench.errors import UnreachableError

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise UnreachableError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
