"""The window on a GPU: is it right on every kernel, and what does it cost beside vLLM's own sliding window?

    python benchmarks/kvwindow_gpu.py correctness --out DIR [--seconds 280]
    python benchmarks/kvwindow_gpu.py load        --out DIR [--seconds 570] [--shapes qwen3-8b,qwen3-30b-a3b]
    python benchmarks/kvwindow_gpu.py rewrite     --out DIR

Needs vLLM on PYTHONPATH. Every job is a process group of its own, killed at its deadline; what it prints goes to
DIR/<job>.log, its figures to DIR/<command>.json after each job, so a run that is cut short keeps what it had.

correctness: streaming sessions through AsyncLLM on a tiny random Llama against a plain forward pass under the mask.
load: engines of one real shape with dummy weights side by side on one GPU, loaded in turn (A B A B), so that both see
the same host. `lockstep` gives all sessions their chunk at once: the same batches on both engines, step for step.
`streaming` gives session i its chunk at i/N of every second: 25 tokens in, 4 out.
rewrite: the rewrite alone, without an engine: host and device microseconds, and the same result as the NumPy path.

The engines load this file as a second plugin (`instrument`): step times, the cost of the rewrite, and, where asked,
NaN in every block that nobody holds and an error on any host synchronisation inside the rewrite.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SINKS, WINDOW = 16, 1024
TOKENS_IN, TOKENS_OUT = 25, 4

# ---------------------------------------------------------------- inside the engine


def instrument() -> None:
    """Entry point of group vllm.general_plugins, in every process of an engine. Off unless BENCH_STEPS is set."""
    path = os.environ.get("BENCH_STEPS")
    if not path or getattr(instrument, "done", False):
        return
    instrument.done = True  # type: ignore[attr-defined]
    _time_steps(Path(path))
    if os.environ.get("KVWINDOW"):
        _time_rewrites(Path(path + ".rewrite"))
        if os.environ.get("BENCH_POISON"):
            _poison(Path(path + ".poison"))


def _time_steps(path: Path) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore

    last: dict[str, Any] = {}
    schedule, step = Scheduler.schedule, EngineCore.step
    file = path.open("a", buffering=1)

    def timed_schedule(self: Any, *args: Any, **kw: Any) -> Any:
        last["out"] = out = schedule(self, *args, **kw)
        return out

    def timed_step(self: Any) -> Any:
        begin = time.perf_counter()
        result = step(self)
        took = time.perf_counter() - begin
        out = last.pop("out", None)
        if out is not None and out.total_num_scheduled_tokens:
            counts = out.num_scheduled_tokens.values()
            longest = max(counts)
            total = out.total_num_scheduled_tokens
            file.write(f"{time.time():.4f} {took * 1e3:.4f} {total} {len(counts)} {longest}\n")
        return result

    Scheduler.schedule, EngineCore.step = timed_schedule, timed_step


def _time_rewrites(path: Path) -> None:
    import torch

    from metrobench.kvwindow.rewrite import Rewriter

    call = Rewriter.__call__
    lines: list[str] = []

    def timed(self: Any, batch: Any) -> Any:
        strict = bool(os.environ.get("BENCH_POISON")) and torch.cuda.is_available()
        if strict:
            torch.cuda.set_sync_debug_mode("error")
        begin = time.perf_counter()
        try:
            out = call(self, batch)
        finally:
            if strict:
                torch.cuda.set_sync_debug_mode("default")
        took = time.perf_counter() - begin
        lines.append(f"{took * 1e6:.1f} {batch.num_reqs} {out.num_reqs} {batch.max_query_len}")
        if len(lines) >= 20:
            with path.open("a") as file:
                file.write("\n".join(lines) + "\n")
            lines.clear()
        return out

    Rewriter.__call__ = timed  # type: ignore[method-assign]


def _poison(path: Path) -> None:
    """NaN in the whole cache before the first real step and in each block when it is freed.

    Scheduler and worker must share a process. On a CPU a block is zeroed when it is handed out: that kernel multiplies
    unwritten places of a held block by 0.
    """
    import torch
    from vllm.v1.core.block_pool import BlockPool

    from metrobench.kvwindow import backends

    freed: list[int] = []
    handed: list[int] = []
    filled: list[bool] = []
    free_blocks, get_new_blocks, builder = BlockPool.free_blocks, BlockPool.get_new_blocks, backends._builder
    on_gpu = torch.cuda.is_available()

    def free(self: Any, blocks: Any) -> None:
        blocks = list(blocks)
        free_blocks(self, blocks)
        freed.extend(block.block_id for block in blocks if not block.is_null and block.ref_cnt == 0)

    def new(self: Any, number: int) -> Any:
        blocks = get_new_blocks(self, number)
        handed.extend(block.block_id for block in blocks)
        return blocks

    def fill(caches: list[Any]) -> None:
        for cache in caches:
            if not filled:
                cache.fill_(float("nan"))
            elif freed:
                cache[torch.tensor(freed, dtype=torch.long, device=cache.device)] = float("nan")
            if not on_gpu:
                cache[torch.tensor(handed, dtype=torch.long)] = 0.0
        with path.open("a") as file:
            file.write(f"{len(freed) if filled else 'all'}\n")
        filled.append(True)
        freed.clear()
        handed.clear()

    def poisoned(base: Any, backend: str) -> Any:
        class Poisoned(builder(base, backend)):  # type: ignore[misc]
            def build(self, *args: Any, **kw: Any) -> Any:
                capturing = on_gpu and torch.cuda.is_current_stream_capturing()
                if (handed or freed) and not capturing:
                    layers = self.vllm_config.compilation_config.static_forward_context
                    fill([layers[name].kv_cache for name in self.layer_names])
                return super().build(*args, **kw)

        return Poisoned

    BlockPool.free_blocks, BlockPool.get_new_blocks, backends._builder = free, new, poisoned


# ---------------------------------------------------------------- correctness


CORRECTNESS: dict[str, dict[str, Any]] = {
    "fa-bf16-eager": {"dtype": "bfloat16"},
    "fa-fp16-piecewise": {"mode": 3, "graphs": "FULL_AND_PIECEWISE"},
    "fa-fp16-decode-graphs": {"graphs": "FULL_DECODE_ONLY"},
    "fa-fp16-align64": {"window": "128+64,align=64"},
    "fa-fp16-no-sinks": {"window": "128+0"},
    "fa-fp16-v1-runner": {"v2": 0, "mode": 3, "graphs": "FULL_AND_PIECEWISE"},
    "fa-fp16-stock": {"window": "", "poison": False, "blocks": 1400},
    "fa-fp16-many": {"sessions": 48, "rounds": 6, "blocks": 1400},
    "triton-fp32-eager": {"dtype": "float32", "backend": "TRITON_ATTN"},
    "triton-fp32-piecewise": {
        "dtype": "float32", "backend": "TRITON_ATTN", "mode": 3, "graphs": "FULL_AND_PIECEWISE",
    },
    "triton-fp32-exact": {
        "dtype": "float32", "backend": "TRITON_ATTN", "mode": 3, "graphs": "FULL_AND_PIECEWISE",
        "window": "100+20,exact",
    },
    "triton-fp16-exact-eager": {"backend": "TRITON_ATTN", "window": "100+20,exact"},
    "fa-fp16-guard": {"length": 1024, "reference": False},
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "dtype": "float16", "backend": "FLASH_ATTN", "graphs": "NONE", "mode": 0, "window": "128+64", "poison": True,
    "sessions": 4, "rounds": 12, "blocks": 160, "length": 8192, "v2": None, "reference": True, "cpu": False,
}  # fmt: skip


def tiny_llama(dtype: Any, folder: Path) -> str:
    """Path of a three-layer Llama with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=128, max_position_embeddings=8192, bos_token_id=1, eos_token_id=2,
        tie_word_embeddings=False, initializer_range=0.12,
    )  # fmt: skip
    LlamaForCausalLM(config).to(dtype).save_pretrained(folder / "tiny")
    return str(folder / "tiny")


async def talk(engine: Any, name: str, rounds: int, log: list[Any], history: list[int]) -> None:
    """One streaming session of chunks of random sizes, three greedy tokens each."""
    from vllm import SamplingParams
    from vllm.engine.protocol import StreamingInput
    from vllm.sampling_params import RequestOutputKind

    rng, queue = random.Random(name), asyncio.Queue()

    async def source() -> Any:
        while (chunk := await queue.get()) is not None:
            yield StreamingInput(prompt={"prompt_token_ids": chunk})

    kind = RequestOutputKind.DELTA
    params = SamplingParams(
        temperature=0.0, max_tokens=3, ignore_eos=True, logprobs=5, output_kind=kind, detokenize=False
    )
    stream = engine.generate(source(), params, request_id=name)
    for _ in range(rounds):
        chunk = [rng.randrange(3, 512) for _ in range(rng.choice([1, 2, 7, 25, 33, 100, 150, 260, 410, 700]))]
        await queue.put(chunk)
        tokens, tops, reason = [], [], None
        async for output in stream:
            tokens += output.outputs[0].token_ids
            tops += output.outputs[0].logprobs or []
            reason = output.outputs[0].stop_reason
            if output.outputs[0].finish_reason:
                break
        history += chunk
        log.append((name, len(history), tokens, tops, reason))
        if not tokens:
            break
        history += tokens[:-1]
    await queue.put(None)
    async for _ in stream:
        pass


def compare(job: dict[str, Any], path: str, log: list[Any], histories: dict[str, list[int]]) -> dict[str, Any]:
    """Differences of log-probabilities to a plain fp32 forward pass under the mask; the same dtype's own noise."""
    import torch
    from transformers import LlamaForCausalLM

    from metrobench.kvwindow import parse

    device = "cpu" if job["cpu"] else "cuda"
    load = LlamaForCausalLM.from_pretrained
    exact = load(path, dtype=torch.float32, attn_implementation="eager").eval().to(device)
    same = load(path, dtype=getattr(torch, job["dtype"]), attn_implementation="eager").eval().to(device)
    window = parse(job["window"]).on(32 if job["cpu"] else 16) if job["window"] else None
    worst = noise = full = 0.0
    differences: list[float] = []
    agree = total = nan = 0
    for name, history in histories.items():
        tokens = torch.tensor([history], device=device)
        position = torch.arange(len(history), device=device)
        query, key = position[:, None], position[None]
        causal = key <= query
        visible = window.visible(query, key) if window else causal

        def forward(model: Any, seen: Any, tokens: Any = tokens, position: Any = position) -> Any:
            hidden = torch.zeros(seen.shape, device=device, dtype=model.dtype)
            hidden = hidden.masked_fill(~seen, torch.finfo(model.dtype).min)[None, None]
            with torch.no_grad():
                out = model(tokens, attention_mask=hidden, position_ids=position[None])
            return out.logits[0].float().log_softmax(-1).cpu()

        reference, other, unmasked = forward(exact, visible), forward(same, visible), forward(exact, causal)
        for session, context, answer, tops, _ in log:
            for step, top in enumerate(tops if session == name else ()):
                row = context - 1 + step
                if row >= len(history):
                    continue
                for token, value in top.items():
                    if math.isnan(value.logprob):
                        nan += 1
                        continue
                    difference = abs(float(reference[row, token]) - value.logprob)
                    worst = max(worst, difference)
                    differences.append(difference)
                    noise = max(noise, abs(float(reference[row, token] - other[row, token])))
                    full = max(full, abs(float(unmasked[row, token]) - value.logprob))
                agree += int(reference[row].argmax()) == answer[step]
                total += 1
    limit = max(2 * noise, 5e-2)
    return {
        "worst": worst, "mean": statistics.fmean(differences), "noise": noise, "against_full": full, "nan": nan,
        "argmax": f"{agree}/{total}", "values": len(differences), "limit": limit,
        "right": nan == 0 and worst <= limit and (window is None or full > 1.0),
    }  # fmt: skip


async def correctness(job: dict[str, Any]) -> dict[str, Any]:
    """One engine, its sessions, the comparison."""
    import torch
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    folder = Path(tempfile.mkdtemp())
    path = tiny_llama(getattr(torch, job["dtype"]), folder)
    options: dict[str, Any] = {} if job["cpu"] else {"attention_backend": job["backend"]}
    compilation = {"mode": job["mode"], "cudagraph_mode": job["graphs"], "cudagraph_capture_sizes": [1, 2, 4, 8]}
    begin = time.time()
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=path, skip_tokenizer_init=True, dtype=job["dtype"], max_model_len=job["length"],
            max_num_seqs=max(8, job["sessions"]), max_num_batched_tokens=256, enable_prefix_caching=False,
            async_scheduling=False, gpu_memory_utilization=0.05, kv_cache_memory_bytes=1 << 30,
            num_gpu_blocks_override=job["blocks"], generation_config="vllm", compilation_config=compilation,
            block_size=32 if job["cpu"] else 16, scheduler_cls="metrobench.kvwindow.scheduler.GuardScheduler",
            **options,
        )
    )  # fmt: skip
    start = time.time() - begin
    log: list[Any] = []
    histories: dict[str, list[int]] = {f"s{i}": [] for i in range(job["sessions"])}
    await asyncio.gather(*(talk(engine, name, job["rounds"], log, history) for name, history in histories.items()))
    last = None
    params = SamplingParams(max_tokens=4, ignore_eos=True, detokenize=False)
    async for last in engine.generate({"prompt_token_ids": [5] * 40}, params, request_id="probe"):  # noqa: B007
        pass
    result: dict[str, Any] = {
        "start_s": round(start, 1), "tokens": sum(map(len, histories.values())), "pool": job["blocks"],
        "answers": len(log), "alive": len(last.outputs[0].token_ids) == 4, "stopped": sorted({str(x[4]) for x in log}),
    }  # fmt: skip
    if job["reference"]:
        result |= compare(job, path, log, histories)
    else:
        result["right"] = result["alive"] and result["stopped"] == ["None", "max_model_len"]
    return result


# ---------------------------------------------------------------- load


SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-8b": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
    },
    "qwen3-30b-a3b": {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
        "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
        "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
        "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "router_aux_loss_coef": 0.001,
    },
    "tiny": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 128, "intermediate_size": 256,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "head_dim": 32,
    },
}  # fmt: skip
COMMON = {
    "head_dim": 128, "hidden_act": "silu", "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000, "tie_word_embeddings": False, "attention_bias": False, "use_sliding_window": False,
    "sliding_window": None, "torch_dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": 1, "initializer_range": 0.02,
}  # fmt: skip


class Load:
    """An engine and its sessions, told by lines of JSON on standard input what to do next."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job, self.queues, self.done = job, [], []
        self.frames: list[tuple[float, float]] = []
        self.tasks: list[Any] = []

    async def start(self) -> dict[str, Any]:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        job = self.job
        folder = Path(tempfile.mkdtemp())
        config = COMMON | SHAPES[job["shape"]] | ({"num_hidden_layers": job["layers"]} if job["layers"] else {})
        (folder / "config.json").write_text(json.dumps(config))
        options: dict[str, Any] = {"hf_overrides": {"sliding_window": WINDOW}} if job["policy"] == "stock" else {}
        if job["policy"] == "stock" and job["cpu"]:  # vLLM 0.32 also wants every layer told
            layers = ["sliding_attention"] * config["num_hidden_layers"]
            options["hf_overrides"] |= {"use_sliding_window": True, "max_window_layers": 0, "layer_types": layers}
        if not job["cpu"]:
            options["attention_backend"] = "FLASH_ATTN"
        begin = time.time()
        self.engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=str(folder), skip_tokenizer_init=True, load_format="dummy", max_model_len=8192,
                dtype="float32" if job["cpu"] else "bfloat16", enable_prefix_caching=False, async_scheduling=False,
                num_gpu_blocks_override=job["blocks"], max_num_seqs=job["sessions"], max_num_batched_tokens=2048,
                gpu_memory_utilization=job["memory"], generation_config="vllm",
                kv_cache_memory_bytes=job["blocks"] * job["block_bytes"] if not job["cpu"] else None,
                block_size=32 if job["cpu"] else 16,
                compilation_config={"mode": job["mode"], "cudagraph_mode": job["graphs"]}, **options,
            )
        )  # fmt: skip
        cache, took = self.engine.vllm_config.cache_config, round(time.time() - begin, 1)
        if (cache.sliding_window == WINDOW) != (job["policy"] == "stock"):
            raise RuntimeError(f"{job['policy']}: sliding_window is {cache.sliding_window}")
        return {"start_s": took, "blocks": cache.num_gpu_blocks, "sliding": cache.sliding_window}

    async def _session(self, number: int, queue: asyncio.Queue[Any]) -> None:
        from vllm import SamplingParams
        from vllm.engine.protocol import StreamingInput
        from vllm.sampling_params import RequestOutputKind

        sent: asyncio.Queue[float] = asyncio.Queue()
        top = 500 if self.job["shape"] == "tiny" else 100_000

        async def source() -> Any:
            while True:
                due, size = await queue.get()
                sent.put_nowait(due)
                yield StreamingInput(prompt={"prompt_token_ids": [random.randrange(10, top) for _ in range(size)]})

        params = SamplingParams(
            temperature=0.0, max_tokens=TOKENS_OUT, ignore_eos=True, detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )  # fmt: skip
        async for output in self.engine.generate(source(), params, request_id=f"s{number}"):
            if output.outputs[0].finish_reason:
                due = sent.get_nowait()
                self.frames.append((due, time.time() - due))
                self.done[number].set()

    async def chunk(self, number: int, due: float, size: int) -> None:
        """Give session `number` a chunk now and wait for its answer."""
        self.done[number].clear()
        self.queues[number].put_nowait((due, size))
        await self.done[number].wait()

    async def fill(self, sessions: int) -> dict[str, Any]:
        """Open sessions up to `sessions` and fill their windows, a few at a time."""
        begin, gate = time.time(), asyncio.Semaphore(16)
        for number in range(len(self.queues), sessions):
            self.queues.append(asyncio.Queue())
            self.done.append(asyncio.Event())
            self.tasks.append(asyncio.create_task(self._session(number, self.queues[number])))

            async def one(number: int = number) -> None:
                async with gate:
                    await self.chunk(number, time.time(), WINDOW + SINKS)

            self.tasks.append(asyncio.create_task(one()))
        await asyncio.gather(*self.tasks[1::2])
        return {"seconds": round(time.time() - begin, 1)}

    async def lockstep(self, rounds: int) -> dict[str, Any]:
        """All sessions get their chunk at once; the time until all have answered."""
        begin, times = time.time(), []
        for _ in range(rounds):
            start = time.perf_counter()
            await asyncio.gather(*(self.chunk(n, time.time(), TOKENS_IN) for n in range(len(self.queues))))
            times.append((time.perf_counter() - start) * 1e3)
        return {"from": begin, "to": time.time(), "round_ms": times}

    async def streaming(self, seconds: float) -> dict[str, Any]:
        """Open loop: session i is due at i/N of every second, and again a second later."""
        self.frames.clear()
        count, begin = len(self.queues), time.time() + 0.2

        async def one(number: int) -> None:
            due = begin + number / count
            while due < begin + seconds:
                await asyncio.sleep(max(0.0, due - time.time()))
                await self.chunk(number, due, TOKENS_IN)
                due += 1.0

        await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(count))), seconds * 4 + 20)
        took = sorted(latency for due, latency in self.frames if due >= begin + 1)  # the first second settles
        quantile = lambda q: round(took[min(len(took) - 1, int(q * len(took)))] * 1e3, 1)  # noqa: E731
        return {
            "from": begin + 1, "to": time.time(), "frames": len(took),
            "p50_ms": quantile(0.5), "p99_ms": quantile(0.99), "max_ms": quantile(1.0),
        }  # fmt: skip

    async def serve(self) -> None:
        reply = await self.start()
        loop = asyncio.get_running_loop()
        while True:
            print("REPLY " + json.dumps(reply), flush=True)
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                return
            command = json.loads(line)
            reply = await getattr(self, command["do"])(command["with"])


class Side:
    """A Load in a process group of its own."""

    def __init__(self, name: str, job: dict[str, Any], out: Path) -> None:
        self.name, self.steps = name, out / f"{name}.steps"
        self.log = (out / f"{name}.log").open("w")
        environment = environment_of(job) | {"BENCH_STEPS": str(self.steps)}
        command = [sys.executable, __file__, "serve", json.dumps(job)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip

    def reply(self, deadline: float) -> dict[str, Any]:
        """The engine's next answer. Raises RuntimeError when it is dead or late."""
        import select

        while time.time() < deadline:
            if not select.select([self.process.stdout], [], [], min(1.0, max(0.0, deadline - time.time())))[0]:
                continue
            line = self.process.stdout.readline()
            if not line:
                break
            if line.startswith("REPLY "):
                return dict(json.loads(line[6:]))
            self.log.write(line)
        raise RuntimeError(f"{self.name}: dead or late, see its log")

    def ask(self, what: str, argument: Any, deadline: float) -> dict[str, Any]:
        self.process.stdin.write(json.dumps({"do": what, "with": argument}) + "\n")
        self.process.stdin.flush()
        return self.reply(deadline)

    def step_times(self, begin: float, end: float) -> dict[str, Any]:
        """Median engine-step milliseconds between two times, of decode steps and of the others."""
        time.sleep(0.1)
        out: dict[str, Any] = {}
        rows = [line.split() for line in self.steps.read_text().splitlines()] if self.steps.exists() else []
        rows = [[float(x) for x in row] for row in rows if len(row) == 5 and begin <= float(row[0]) <= end]
        for kind, chosen in (("decode", [r for r in rows if r[4] == 1]), ("mixed", [r for r in rows if r[4] > 1])):
            if chosen:
                out[f"{kind}_ms"] = round(statistics.median(r[1] for r in chosen), 3)
                out[f"{kind}_steps"] = len(chosen)
                out[f"{kind}_tokens"] = round(statistics.fmean(r[2] for r in chosen), 1)
        return out

    def rewrite_cost(self) -> dict[str, Any]:
        """Microseconds of CPU in the rewrite, over the whole job."""
        path = Path(f"{self.steps}.rewrite")
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        out: dict[str, Any] = {}
        for kind, test in (("decode", lambda n: n == 1), ("mixed", lambda n: n > 1)):
            took = sorted(float(row[0]) for row in rows if len(row) == 4 and test(int(row[3])))
            if len(took) > 50:
                out[kind] = {
                    "n": len(took), "p50_us": took[len(took) // 2], "p99_us": took[int(len(took) * 0.99)],
                    "mean_us": round(statistics.fmean(took), 1),
                }  # fmt: skip
        return out

    def kill(self) -> None:
        kill(self.process)
        self.log.close()


def measure(name: str, sides: dict[str, Side], job: dict[str, Any], save: Any, deadline: float) -> None:
    """Load the sides in turn, stage by stage; `save` is called with the rows so far."""
    rows: list[dict[str, Any]] = []
    facts: dict[str, Any] = {"job": name} | job
    facts["start"] = {side.name: side.reply(deadline) for side in sides.values()}
    for sessions in job["stages"]:
        for policy, side in sides.items():
            rows.append({"policy": policy, "N": sessions, "stage": "fill"} | side.ask("fill", sessions, deadline))
        for turn in range(job["turns"]):
            for policy, side in list(sides.items())[:: 1 if turn % 2 == 0 else -1]:
                for stage, argument in (("lockstep", job["rounds"]), ("streaming", job["seconds"])):
                    reply = side.ask(stage, argument, deadline)
                    steps = side.step_times(reply["from"], reply["to"])
                    if times := reply.pop("round_ms", None):
                        reply["round_ms_median"] = round(statistics.median(times), 2)
                    rows.append({"policy": policy, "N": sessions, "stage": stage, "turn": turn} | reply | steps)
                    save(facts | {"rows": rows, "overhead": overhead(rows)})
    facts["rewrite"] = {policy: side.rewrite_cost() for policy, side in sides.items()}
    save(facts | {"rows": rows, "overhead": overhead(rows)})


def overhead(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Plugin over stock: median, least and greatest of the ratios turn by turn; only where both were measured."""
    out = []
    figures = ("decode_ms", "mixed_ms", "round_ms_median", "p50_ms", "p99_ms")
    for sessions, stage in sorted({(row["N"], row["stage"]) for row in rows}):
        for figure in figures:
            of: dict[str, dict[int, float]] = {"stock": {}, "plugin": {}}
            for row in rows:
                if (row["N"], row["stage"]) == (sessions, stage) and row["policy"] in of and figure in row:
                    of[row["policy"]][row["turn"]] = row[figure]
            if turns := sorted(of["stock"].keys() & of["plugin"].keys()):
                ratios = [round(of["plugin"][turn] / of["stock"][turn], 4) for turn in turns]
                medians = {policy: statistics.median(values.values()) for policy, values in of.items()}
                spread = {"ratio": statistics.median(ratios), "least": min(ratios), "greatest": max(ratios)}
                out.append({"N": sessions, "stage": stage, "figure": figure, "turns": len(turns)} | medians | spread)
    return out


# ---------------------------------------------------------------- the rewrite alone


def random_batch(requests: int, longest: int, length: int, seed: int) -> Any:
    """CommonAttentionMetadata on the GPU: `requests` requests of 1 to `longest` queries, up to `length` tokens long."""
    import numpy as np
    import torch
    from vllm.v1.attention.backend import CommonAttentionMetadata

    rng = np.random.default_rng(seed)
    ends = rng.integers(longest, length, requests).astype(np.int32)
    starts = np.concatenate([[0], rng.integers(1, longest + 1, requests).cumsum()]).astype(np.int32)
    table = torch.randint(1, 1 << 20, (requests, length // 16), dtype=torch.int32, device="cuda")
    host = torch.from_numpy(starts)
    return CommonAttentionMetadata(
        query_start_loc=host.cuda(), query_start_loc_cpu=host, seq_lens=torch.from_numpy(ends).cuda(),
        num_reqs=requests, num_actual_tokens=int(starts[-1]), max_query_len=int(np.diff(starts).max()),
        max_seq_len=length, block_table_tensor=table, seq_lens_cpu_upper_bound=torch.from_numpy(ends),
        slot_mapping=torch.zeros(int(starts[-1]), dtype=torch.int64, device="cuda"),
    )  # fmt: skip


def run_rewrite(out: Path) -> None:
    """Equality with the NumPy path over random batches, then the cost."""
    import numpy as np
    import torch

    from metrobench.kvwindow import parse
    from metrobench.kvwindow.compaction import Compactor, split
    from metrobench.kvwindow.rewrite import Rewriter, max_rows

    results: dict[str, Any] = {"wrong": 0, "checked": 0, "cost": []}
    shapes = [(1, 1), (64, 1), (256, 1), (1, 900), (8, 25), (64, 25), (256, 25), (7, 300)]
    for text in ("1024+16", "256+0", "128+64,align=64", "100+20,exact"):
        window = parse(text).on(16)
        rows = max_rows(264, 8192, window.align)
        rewriter = Rewriter(window, 16, 264, rows, torch.device("cuda"), host=False)
        results.setdefault("compiled_launch", {})[text] = all(rewriter._launch._compiled.values())
        for (requests, longest), seed in [(shape, seed) for shape in shapes for seed in range(4)]:
            batch = random_batch(requests, longest, 8192, seed)
            made = rewriter(batch)
            cut = split(batch.query_start_loc_cpu.numpy(), batch.seq_lens_cpu_upper_bound.numpy(), window.align)
            lengths, table = Compactor(window, 16, rows)(cut, batch.block_table_tensor.cpu().numpy())
            live = np.arange(table.shape[1])[None] < -(-lengths // 16)[:, None]
            same = (
                np.array_equal(made.seq_lens.cpu().numpy(), lengths)
                and np.array_equal(made.query_start_loc.cpu().numpy(), cut.query_start)
                and np.array_equal(made.block_table_tensor.cpu().numpy()[live], table[live])
            )
            results["wrong"] += not same
            results["checked"] += 1
            if seed or text != "1024+16":
                continue
            for _ in range(50):
                rewriter(batch)
            torch.cuda.synchronize()
            host = []
            for _ in range(300):
                begin = time.perf_counter()
                rewriter(batch)
                host.append((time.perf_counter() - begin) * 1e6)
            torch.cuda.synchronize()
            row = {"requests": requests, "longest": longest, "rows": made.num_reqs}
            results["cost"].append(row | {"host_us": round(statistics.median(host), 1)})
    (out / "rewrite.json").write_text(json.dumps(results, indent=1))
    print(json.dumps(results), flush=True)


# ---------------------------------------------------------------- orchestration


def environment_of(job: dict[str, Any]) -> dict[str, str]:
    """Environment of an engine: the two plugins on the path, the window where the job has one."""
    points = Path(tempfile.gettempdir()) / "kvwindow-bench-plugins"
    info = points / "kvwindow_bench-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kvwindow-bench\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nkvwindow = metrobench.kvwindow:register\nbench = kvwindow_gpu:instrument\n"
    )
    path = [str(HERE.parent), str(HERE), str(points), os.environ.get("PYTHONPATH", "")]
    out = os.environ | {
        "PYTHONPATH": os.pathsep.join(part for part in path if part), "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1",
        "VLLM_PLUGINS": "kvwindow,bench", "KVWINDOW": job.get("window", ""),
    }  # fmt: skip
    if job.get("poison"):
        out["BENCH_POISON"] = "1"
    if job.get("cpu"):
        out |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}  # the worker inside the engine
    if job.get("v2") is not None:
        out["VLLM_USE_V2_MODEL_RUNNER"] = str(job["v2"])
    return out


def kill(process: subprocess.Popen[str]) -> None:
    """End a job's whole process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_correctness(arguments: argparse.Namespace, out: Path, deadline: float) -> None:
    """Every correctness job, a few at a time."""
    names = [name for name in CORRECTNESS if not arguments.only or name in arguments.only.split(",")]
    waiting = [(name, DEFAULTS | CORRECTNESS[name] | {"cpu": arguments.cpu}) for name in names]
    job_of = dict(waiting)
    running: dict[str, tuple[Any, float, Path]] = {}
    results: dict[str, Any] = {}
    while (waiting or running) and time.time() < deadline:
        while waiting and len(running) < arguments.parallel:
            name, job = waiting.pop(0)
            if arguments.cpu:
                job |= {"dtype": "float32", "graphs": "NONE", "mode": 0}
            answer = out / f"{name}.json"
            log = (out / f"{name}.log").open("w")
            environment = environment_of(job) | {"BENCH_STEPS": str(out / f"{name}.steps")}
            command = [sys.executable, __file__, "correct", json.dumps(job), str(answer)]
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True, text=True
            )
            running[name] = process, time.time(), answer
        time.sleep(0.2)
        for name, (process, begin, answer) in list(running.items()):
            late = time.time() - begin > arguments.job_seconds
            if process.poll() is None and not late:
                continue
            kill(process)
            del running[name]
            failed = {"right": False, "error": "late" if late else "died"}
            results[name] = json.loads(answer.read_text()) if answer.exists() else failed
            poison = out / f"{name}.steps.poison"
            results[name]["steps_with_nan_written"] = len(poison.read_text().split()) if poison.exists() else 0
            if job_of[name]["poison"] and not results[name]["steps_with_nan_written"]:
                results[name]["right"] = False
            results[name]["took_s"] = round(time.time() - begin, 1)
            print(name, json.dumps(results[name]), flush=True)
            (out / "correctness.json").write_text(json.dumps(results, indent=1))
    for process, _, _ in running.values():
        kill(process)
    missing = [name for name in names if name not in results]
    print("right", sum(r["right"] for r in results.values()), "of", len(names), "not run", missing, flush=True)


def run_load(arguments: argparse.Namespace, out: Path, deadline: float) -> None:
    """Per shape: stock and plugin side by side, then unbounded alone."""
    stages = [int(n) for n in arguments.stages.split(",")]
    results: dict[str, Any] = {}
    for shape in arguments.shapes.split(","):
        config = COMMON | SHAPES[shape]
        layers = arguments.layers if shape == "qwen3-30b-a3b" else 0
        heads, depth = config["num_key_value_heads"], layers or config["num_hidden_layers"]
        base = {
            "shape": shape, "layers": layers, "sessions": stages[-1] + 8, "stages": stages, "turns": arguments.turns,
            "rounds": arguments.rounds, "seconds": arguments.stage_seconds, "mode": 0 if arguments.cpu else 3,
            "graphs": "NONE" if arguments.cpu else "FULL_AND_PIECEWISE", "cpu": arguments.cpu, "memory": 0.1,
            "block_bytes": 16 * depth * heads * config["head_dim"] * 2 * 2, "window": "",
        }  # fmt: skip
        per_session = (WINDOW + SINKS) // 16 + 8
        base["blocks"] = stages[-1] * per_session + 2048 // 16 + 1
        window = f"{WINDOW}+{SINKS}" + (f",align={arguments.align}" if arguments.align else "")
        grown = base | {"blocks": int(base["blocks"] * 1.9)}
        groups = {
            f"{shape}-pair": {"stock": base, "plugin": base | {"window": window}},
            f"{shape}-unbounded": {"unbounded": grown | {"turns": 1}},
        }
        for name, policies in groups.items():
            if arguments.only and name not in arguments.only.split(","):
                continue
            end = min(deadline, time.time() + arguments.job_seconds)
            if end - time.time() < 60:
                results[name] = {"error": "no time left"}
                continue
            sides = {
                policy: Side(f"{name}-{policy}", job | {"policy": policy}, out) for policy, job in policies.items()
            }

            def save(facts: dict[str, Any], name: str = name) -> None:
                results[name] = facts
                (out / "load.json").write_text(json.dumps(results, indent=1))

            try:
                measure(name, sides, next(iter(policies.values())), save, end)
            except (RuntimeError, BrokenPipeError, OSError) as error:
                results.setdefault(name, {})["error"] = str(error)
            finally:
                for side in sides.values():
                    side.kill()
            (out / "load.json").write_text(json.dumps(results, indent=1))
            print(name, json.dumps(results[name].get("overhead", results[name])), flush=True)
            for row in results[name].get("rows", ()):
                print(json.dumps(row), flush=True)
            print("rewrite", json.dumps(results[name].get("rewrite")), flush=True)


def main() -> None:
    if sys.argv[1] == "correct":
        job = json.loads(sys.argv[2])
        Path(sys.argv[3]).write_text(json.dumps(asyncio.run(correctness(job))))
        os._exit(0)
    if sys.argv[1] == "serve":
        asyncio.run(Load(json.loads(sys.argv[2])).serve())
        os._exit(0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["correctness", "load", "rewrite"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=560.0, help="deadline of the whole command")
    parser.add_argument("--job-seconds", type=float, default=330.0, help="deadline of one job")
    parser.add_argument("--only", default="", help="names of jobs")
    parser.add_argument("--parallel", type=int, default=4, help="correctness jobs at a time")
    parser.add_argument("--shapes", default="qwen3-8b,qwen3-30b-a3b")
    parser.add_argument("--layers", type=int, default=32, help="layers of the 30B shape (48): two engines share a GPU")
    parser.add_argument("--stages", default="64,128,256", help="numbers of sessions")
    parser.add_argument("--turns", type=int, default=2, help="times each engine is loaded per number of sessions")
    parser.add_argument("--rounds", type=int, default=12, help="lockstep rounds a turn")
    parser.add_argument("--stage-seconds", type=float, default=6.0, help="streaming seconds a turn")
    parser.add_argument("--align", type=int, default=0, help="the plugin's align; 0: one block")
    parser.add_argument("--cpu", action="store_true", help="try the script itself on a CPU build")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.command == "rewrite":
        run_rewrite(arguments.out)
        return
    run = run_correctness if arguments.command == "correctness" else run_load
    run(arguments, arguments.out.resolve(), time.time() + arguments.seconds)


if __name__ == "__main__":
    main()
