"""Workers start fresh, die loudly, and leave nothing behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from metrobench.admission.choice import Choice
from metrobench.errors import UnreachableError, UsageError
from metrobench.measure.facts import TELEMETRY_FIELDS
from metrobench.profiles import load_profile
from metrobench.worker import osproc
from metrobench.worker.launcher import ForkServer, Worker
from tests.worker.conftest import Launch
from tests.worker.talk import HANG, Talk, loud, quiet, talk

pytestmark = pytest.mark.engine


def wait_until(happened, what: str) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + HANG
    while not happened():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.02)


def shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir()}


def shared_by(pid: int) -> set[str]:
    """Names of the shared memory that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.partition("/dev/shm/")[2] for line in lines if "/dev/shm/" in line}


def fds(pid: int | str) -> set[str]:
    links = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.add(str(entry.readlink()))
        except OSError:
            continue
    return links


def test_a_worker_serves_and_says_what_it_is(worker: Worker):
    info = worker.info
    assert info.stand_in
    assert info.device == "cpu"
    assert info.policy == "window:128+32"
    assert info.block_size == 32
    assert info.num_blocks == 8192 // 32 + 1
    assert info.pool_tokens == 8192
    assert info.max_model_len == 8192
    assert info.start_seconds > 0
    assert worker.url == f"ws://127.0.0.1:{info.port}/v1/realtime"
    assert worker.alive()
    assert worker.death() is None

    async def play() -> None:
        session = await talk(worker.url, fill=128)
        own = session.created["session"]["metrobench"]
        assert own["stand_in"] is True
        assert own["engine"] == f"vllm {info.vllm_version}"
        frames = await session.frames(loud(0.5) + quiet(0.5), 2)
        assert [(frame["frame"], frame["tokens"], frame["speaking"]) for frame in frames] == [
            (0, 1, False),
            (1, 4, True),
        ]
        assert frames[1]["resident_tokens"] == 128 + 6 + 6 + 3
        await session.socket.close()

    asyncio.run(play())


def test_telemetry_has_known_fields_and_grows(worker: Worker):
    async def play() -> None:
        session = await talk(worker.url)
        await session.frames(loud(0.5), 1)
        await asyncio.sleep(1.2)
        await session.socket.close()

    before = time.monotonic()
    asyncio.run(play())
    samples = worker.telemetry()
    assert len(samples) >= 2
    for sample in samples:
        assert set(sample) <= set(TELEMETRY_FIELDS)
        assert before - 60 < sample["t"] < time.monotonic()  # type: ignore[operator]
    last = samples[-1]
    assert last["engine_rss"] > 1e8  # type: ignore[operator]
    assert last["front_cpu"] > 0  # type: ignore[operator]
    assert last["resident_tokens"] == 6
    assert last["backlog"] == 0
    assert last["prefix_hits"] == 0
    times = [sample["t"] for sample in samples]
    assert times == sorted(times)
    wait_until(lambda: worker.telemetry() != [], "a new sample")


def test_ten_workers_in_a_row_leave_nothing(forkserver: ForkServer, launch: Launch):
    process = forkserver._process
    assert process is not None
    launch().kill()
    memory, ours, theirs = shared_memory(), fds("self"), fds(process.pid)
    root = forkserver._root
    assert root is not None
    files = set(root.iterdir())
    for _ in range(10):
        worker = launch()
        family = {worker.info.front_pid, worker.info.engine_pid}
        assert family <= osproc.tree(worker.info.front_pid)
        assert set(root.iterdir()) > files
        worker.kill()
        assert not worker.alive()
        assert worker.death() is None
        assert not family & osproc.process_table().keys()
    assert osproc.tree(process.pid) == {process.pid}
    assert set(root.iterdir()) == files
    assert str(root) not in Path("/proc/net/unix").read_text()
    wait_until(lambda: shared_memory() <= memory, "shared memory to come back")
    # what an earlier test left to the garbage collector may close meanwhile
    assert fds("self") <= ours
    assert fds(process.pid) <= theirs
    assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 1


def test_a_killed_engine_is_a_death_told_to_all(worker: Worker):
    async def play() -> None:
        sessions = [await talk(worker.url) for _ in range(3)]
        os.kill(worker.info.engine_pid, signal.SIGKILL)
        for session in sessions:
            assert (await session.event("error"))["error"]["code"] == "engine_dead"
            assert await session.close_code() == 1011

    asyncio.run(play())
    wait_until(lambda: not worker.alive(), "the death")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"http://127.0.0.1:{worker.info.port}/health", timeout=HANG)
    assert "killed by signal 9" in (worker.death() or "")


def test_a_killed_gateway_is_a_death(worker: Worker):
    os.kill(worker.info.front_pid, signal.SIGKILL)
    wait_until(lambda: not worker.alive(), "the death")
    assert worker.death() == "the gateway process was killed by SIGKILL"
    wait_until(lambda: worker.info.engine_pid not in osproc.process_table(), "the engine's end")


def test_an_unguarded_limit_kills_the_engine_and_the_guard_prevents_it(launch: Launch):
    async def play(worker: Worker) -> str:
        session, other = await talk(worker.url, fill=240), await talk(worker.url)
        await session.audio(loud(2.0))
        code = (await session.event("error"))["error"]["code"]
        if code == "context_exhausted":
            await other.frames(loud(0.5), 1)
        return code  # type: ignore[no-any-return]

    guarded = launch(kv="unbounded", vllm_args={"max_model_len": 256})
    assert asyncio.run(play(guarded)) == "context_exhausted"
    assert guarded.alive()
    guarded.kill()
    for kv in ("unbounded", "window:64"):
        unguarded = launch(kv=kv, vllm_args={"max_model_len": 256}, guard_positions=False)
        assert asyncio.run(play(unguarded)) in ("engine_dead", "engine_error")
        wait_until(lambda worker=unguarded: not worker.alive(), "the death")


@pytest.mark.parametrize("kv", [pytest.param("window:64", marks=pytest.mark.thorough), "window:64+16", "recycle:96"])
def test_bounded_sessions_live_through_ten_times_max_model_len(launch: Launch, kv: str):
    longest, frames, at_once = 192, 310, 8
    worker = launch(kv=kv, vllm_args={"max_model_len": longest}, max_sessions=at_once)
    assert worker.info.peak_blocks is not None

    async def live() -> list[dict[str, Any]]:
        session = await talk(worker.url)
        done = await session.frames(loud(0.5 * frames / 2) + quiet(0.5 * frames / 2), frames)
        assert [frame["frame"] for frame in done] == list(range(frames))
        return done

    async def play() -> list[list[dict[str, Any]]]:
        return await asyncio.gather(*(live() for _ in range(at_once)))

    lives = asyncio.run(play())
    assert worker.alive()
    for done in lives:
        assert sum(6 + frame["tokens"] - 1 for frame in done) >= 10 * longest
        assert sum(frame.get("rollover", False) for frame in done) >= 10
    samples = worker.telemetry()
    most = at_once * worker.info.peak_blocks / (worker.info.num_blocks - 1)
    assert max(sample["kv_usage"] or 0.0 for sample in samples) <= most


def test_no_more_sessions_are_admitted_than_the_pool_holds_for_ever(launch: Launch):
    worker = launch(kv="window:512+16", pool_tokens=4096)
    holds = worker.info.kv_sessions
    assert holds is not None and 1 <= holds < 8

    async def play() -> dict[str, Any]:
        sessions = [await talk(worker.url) for _ in range(holds)]
        refused = await Talk.connect(worker.url)
        error: dict[str, Any] = (await refused.event("error"))["error"]
        await sessions[0].frames(loud(0.5), 1)
        return error

    error = asyncio.run(play())
    assert error["code"] == "kv_limit"
    assert f"holds {holds} sessions" in error["message"]


def test_without_admission_more_sessions_come_in_than_the_pool_holds_for_ever(launch: Launch):
    worker = launch(kv="window:512+16", pool_tokens=4096, admission=Choice("none"))
    holds = worker.info.kv_sessions
    assert holds is not None and 1 <= holds < 8

    async def play() -> None:
        for _ in range(holds + 1):
            await talk(worker.url)

    asyncio.run(play())


def test_a_worker_refuses_by_its_rule_and_frees_the_blocks_of_those_who_vanish(launch: Launch):
    worker = launch(admission=Choice("static", 2))

    async def play() -> None:
        for _ in range(5):
            sessions = [await talk(worker.url) for _ in range(2)]
            refused = await Talk.connect(worker.url)
            error = (await refused.event("error"))["error"]
            assert error["code"] == "session_limit" and error["metrobench"]["cap"] == 2
            assert await refused.close_code() == 1013
            await sessions[0].frames(loud(0.5), 1)
            for session in sessions:
                session.socket.transport.abort()
            await asyncio.sleep(0.3)

    asyncio.run(play())
    wait_until(
        lambda: any(row["resident_tokens"] == 0.0 and row["kv_usage"] == 0.0 for row in worker.telemetry()[-1:]),
        "the blocks of all sessions are free",
    )


def test_the_sessions_a_pool_holds_follow_the_engines_own_chunks(launch: Launch):
    usual, whole = (
        launch(kv="window:512+16", vllm_args=arguments).info for arguments in ({}, {"long_prefill_token_threshold": 0})
    )
    assert (usual.peak_blocks, whole.peak_blocks) == (1 + 18 + 1, 1 + 80 + 1)
    assert whole.kv_sessions == 256 // 82


def test_a_configuration_that_the_plugin_refuses_is_one_clear_error(launch: Launch):
    guess = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}
    with pytest.raises(UsageError, match=r"refuses.*: kvwindow cannot run here: speculative decoding checks several"):
        launch(kv="window:64+16", vllm_args={"speculative_config": guess})


def test_blocks_in_use_are_what_the_ledgers_say_and_come_back(launch: Launch):
    worker = launch(kv="unbounded")
    block = worker.info.block_size

    def blocks_of(samples: list[dict[str, float | None]]) -> int:
        return round(samples[-1]["kv_usage"] * (worker.info.num_blocks - 1))  # type: ignore[operator]

    def sampled() -> list[dict[str, float | None]]:
        worker.telemetry()
        samples: list[dict[str, float | None]] = []
        while len(samples) < 2:
            time.sleep(0.1)
            samples += worker.telemetry()
        return samples

    async def play() -> None:
        one, two = await talk(worker.url, fill=500), await talk(worker.url, fill=100)
        last = [(await session.frames(loud(2.5) + quiet(1.0), 7))[-1] for session in (one, two)]
        held = [frame["resident_tokens"] for frame in last]
        assert held == [500 + 5 * 6 + 2 * 9, 100 + 5 * 6 + 2 * 9]
        samples = await asyncio.to_thread(sampled)
        assert samples[-1]["resident_tokens"] == sum(held)
        assert samples[-1]["deferred"] == 2
        assert blocks_of(samples) == sum(-(-tokens // block) for tokens in held)
        await one.socket.close()
        frame = (await two.frames(loud(0.5), 1))[0]
        assert blocks_of(await asyncio.to_thread(sampled)) == -(-frame["resident_tokens"] // block)

    asyncio.run(play())


def test_a_port_that_is_taken_is_one_clear_error(launch: Launch, worker: Worker):
    with pytest.raises(UnreachableError, match="cannot listen on"):
        launch(port=worker.info.port)
    assert worker.alive()


def test_vllm_arguments_win_and_bad_ones_are_named(launch: Launch):
    assert launch(vllm_args={"max_model_len": 512}).info.max_model_len == 512
    with pytest.raises(UsageError, match="no argument no-such-argument"):
        launch(vllm_args={"no_such_argument": 1})
    with pytest.raises(UsageError, match="plain JSON"):
        launch(vllm_args={"max_model_len": object()})


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_engine_and_gateway_get_their_own_cores(launch: Launch):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    apart = launch(engine_cores=frozenset({first}), front_cores=frozenset({second})).info
    assert (apart.engine_cores, apart.front_cores, apart.shared_core) == ((first,), (second,), False)
    threads = list(Path(f"/proc/{apart.front_pid}/task").iterdir())
    assert {os.sched_getaffinity(int(thread.name)) == {second} for thread in threads} == {True}
    together = launch(engine_cores=frozenset({first}), front_cores=frozenset({first})).info
    assert (together.engine_cores, together.shared_core) == ((first,), True)


def test_dummy_weights_have_the_models_own_shape(launch: Launch):
    info = launch(weights="dummy", pool_tokens=4096, kv="window:100").info
    assert not info.stand_in
    assert (info.block_size, info.policy) == (128, "window:128")


def test_a_frame_of_one_position_adds_one_token(launch: Launch):
    worker = launch(profile=load_profile("kyutai-stt"), pool_tokens=8192)

    async def play() -> None:
        session = await talk(worker.url, fill=700)
        frames = await session.frames(loud(0.8), 10)
        assert [frame["resident_tokens"] for frame in frames] == list(range(701, 711))
        await session.socket.close()

    assert worker.info.policy == "window:768"
    assert worker.info.max_model_len == 40_960
    asyncio.run(play())


def test_a_mixture_of_experts_runs_with_dummy_weights(launch: Launch):
    dense = load_profile("smoke")
    mixture = {"architecture": "Qwen3MoeForCausalLM", "experts": 4, "experts_per_token": 2, "expert_width": 64}
    profile = msgspec.structs.replace(dense, decoder=msgspec.structs.replace(dense.decoder, **mixture))
    worker = launch(profile=profile, weights="dummy", pool_tokens=4096)

    async def play() -> None:
        session = await talk(worker.url, fill=128)
        assert len(await session.frames(loud(0.5) + quiet(0.5), 2)) == 2
        await session.socket.close()

    assert not worker.info.stand_in
    asyncio.run(play())


def test_weights_that_do_not_exist_are_one_clear_error(launch: Launch):
    with pytest.raises(UsageError, match="no/such"):
        launch(weights="hf:/no/such/folder")


def test_a_worker_too_slow_to_start_is_given_up(forkserver: ForkServer, launch: Launch):
    with pytest.raises(UnreachableError, match="not ready after"):
        forkserver.launch(launch().spec, timeout=0.001)
    assert forkserver._process is not None
    assert launch().alive()


CLI = """
import json, sys, time
from pathlib import Path
from metrobench.policy import parse_policy
from metrobench.profiles import load_profile
from metrobench.worker.launcher import ForkServer
from metrobench.worker.spec import WorkerSpec
log = Path(sys.argv[1])
server = ForkServer(log)
server.start()
profile = load_profile("smoke")
worker = server.launch(WorkerSpec(profile, parse_policy("window:128", 32), 4, 4096, "standin", 1, None, None, log))
pids = [server._process.pid, worker.info.front_pid, worker.info.engine_pid]
print(json.dumps({"pids": pids, "root": str(server._root)}), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_nothing_survives_its_parent(tmp_path: Path, signum: int):
    parent = subprocess.Popen(
        [sys.executable, "-c", CLI, str(tmp_path / "log")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        told = json.loads(line)
        pipes = {link for link in fds(parent.pid) if link.startswith("pipe:")}
        assert pipes
        for pid in told["pids"]:
            assert not fds(pid) & pipes, "a process of ours holds the parent's output open"
        memory = set().union(*map(shared_by, told["pids"]))
        parent.send_signal(signum)
        parent.communicate(timeout=HANG)
    finally:
        parent.kill()
    wait_until(lambda: not set(told["pids"]) & osproc.process_table().keys(), "the end of all processes")
    wait_until(lambda: not Path(told["root"]).exists(), "the removal of the files")
    wait_until(lambda: not shared_memory() & memory, "shared memory to come back")


def test_a_killed_fork_server_takes_its_workers_along(tmp_path: Path, launch: Launch):
    spec = launch().spec
    with ForkServer(tmp_path / "log") as server:
        worker = server.launch(spec)
        pids = {worker.info.front_pid, worker.info.engine_pid}
        assert server._process is not None
        server._process.kill()
        wait_until(lambda: not pids & osproc.process_table().keys(), "the end of its workers")
        assert not worker.alive()
        assert "gateway process" in (worker.death() or "")
        with pytest.raises(UnreachableError):
            server.launch(spec)
        root = server._root
        worker.kill()
    assert root is not None
    assert not root.exists()
