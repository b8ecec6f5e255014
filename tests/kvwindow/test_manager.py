"""The block manager inside vLLM's own KVCacheManager: retention, the cap, the prefix cache, blocks that come back."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from metrobench.kvwindow import Window

pytestmark = pytest.mark.engine

BLOCK = 16
IN_FLIGHT = 128
REQUESTS = 4
SHAPES = [Window(64, 32, 16), Window(128, 32, 64), Window(64, 0, 16), Window(50, 20, 128, exact=True)]


@pytest.fixture(scope="module", autouse=True)
def registered(vllm: None) -> None:
    from vllm.utils.hashing import sha256
    from vllm.v1.core import kv_cache_utils

    from metrobench.kvwindow.spec import register_spec

    register_spec()
    register_spec()  # vLLM loads plugins more than once
    kv_cache_utils.init_none_hash(sha256)


def spec_of(window: Window) -> Any:
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    from metrobench.kvwindow.spec import SinkWindowSpec

    full = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=16, dtype=torch.float32)
    return SinkWindowSpec.from_full(full, window)


class Pool:
    """vLLM's KVCacheManager over one windowed group, and requests that grow."""

    def __init__(self, window: Window, blocks: int, caching: bool) -> None:
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

        self.window = window
        group = KVCacheGroupSpec(["layer"], spec_of(window))
        config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[group])
        self.kv = KVCacheManager(
            kv_cache_config=config,
            max_model_len=100_000,
            enable_caching=caching,
            hash_block_size=BLOCK,
            scheduler_block_size=BLOCK,
            max_in_flight_tokens=IN_FLIGHT,
        )
        self.caching = caching
        self.manager = self.kv.coordinator.single_type_managers[0]

    def request(self, name: str, tokens: list[int]) -> Any:
        from vllm.sampling_params import SamplingParams
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher
        from vllm.v1.request import Request

        hasher = get_request_block_hasher(BLOCK, sha256) if self.caching else None
        params = SamplingParams(max_tokens=5)
        return Request(name, list(tokens), params, None, block_hasher=hasher, resumable=True)

    def compute(self, request: Any, tokens: int) -> int:
        """Schedule up to `tokens` tokens as vLLM's scheduler does; tokens that the prefix cache gave."""
        hit, extra = 0, {}
        if request.num_computed_tokens == 0:
            found, hit, *_ = self.kv.get_computed_blocks(request)
            extra = {"num_new_computed_tokens": hit, "new_computed_blocks": found}
        new = min(tokens, request.num_tokens - request.num_computed_tokens - hit)
        first = request.num_computed_tokens == 0
        assert self.kv.allocate_slots(request, new, full_sequence_must_fit=first, **extra) is not None
        request.num_computed_tokens += hit + new
        self.check(request, request.num_computed_tokens - new)
        return int(hit)

    def check(self, request: Any, oldest_query: int) -> None:
        """Sinks and window are held, the cap is kept."""
        table = self.manager.req_to_blocks[request.request_id]
        low, high = self.window.dead_blocks(oldest_query, BLOCK)
        needed = [*table[:low], *table[high:]]
        assert not any(block.is_null for block in needed)
        assert len({block.block_id for block in needed}) == len(needed)
        held = sum(not block.is_null for block in table)
        assert held <= self.window.resident_blocks(IN_FLIGHT, BLOCK)


def extend(request: Any, tokens: list[int]) -> None:
    request._all_token_ids.extend(tokens)
    request.prompt_token_ids.extend(tokens)
    request.num_prompt_tokens += len(tokens)
    request.update_block_hashes()


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("window", SHAPES, ids=str)
def test_sessions_stay_within_the_cap_and_return_every_block(window: Window, caching: bool) -> None:
    for seed in range(3):
        rng = random.Random(seed)
        pool = Pool(window, REQUESTS * window.resident_blocks(IN_FLIGHT, BLOCK) + 1, caching)
        prompt = [rng.randrange(1000) for _ in range(90)]
        requests = [pool.request(f"r{i}", prompt) for i in range(REQUESTS)]
        for _ in range(250):
            request = rng.choice(requests)
            if request.num_computed_tokens == request.num_tokens:
                extend(request, [rng.randrange(1000) for _ in range(rng.choice([1, 1, 1, 5, 40, 300]))])
            pool.compute(request, IN_FLIGHT)
        for request in requests:
            pool.kv.free(request)
        assert pool.kv.block_pool.get_num_free_blocks() == REQUESTS * window.resident_blocks(IN_FLIGHT, BLOCK)
        assert max(request.num_tokens for request in requests) > 10 * (window.sinks + window.window)


@pytest.mark.parametrize("window", SHAPES, ids=str)
def test_admission_cap_is_the_mask_s_bound(window: Window) -> None:
    spec = spec_of(window)
    assert spec.max_admission_blocks_per_request(IN_FLIGHT, 100_000) == window.resident_blocks(IN_FLIGHT, BLOCK)
    assert spec.max_admission_blocks_per_request(IN_FLIGHT, 40) == 3


@pytest.mark.parametrize("window", SHAPES, ids=str)
def test_a_restarted_session_finds_its_sinks_and_window_though_the_middle_is_gone(window: Window) -> None:
    rng = random.Random(1)
    tokens = [rng.randrange(1000) for _ in range(1500)]
    cap = window.resident_blocks(IN_FLIGHT, BLOCK)
    pool = Pool(window, 2 * cap + 1, caching=True)
    first = pool.request("first", tokens)
    while first.num_computed_tokens < len(tokens):
        pool.compute(first, IN_FLIGHT)
    pool.kv.free(first)
    again = pool.request("again", tokens)
    hit = pool.compute(again, IN_FLIGHT)
    assert hit == (len(tokens) - 1) // BLOCK * BLOCK
    assert any(block.is_null for block in pool.manager.req_to_blocks["again"])


@pytest.mark.parametrize("window", SHAPES, ids=str)
def test_a_hit_is_the_longest_one_whose_sinks_and_window_are_cached(window: Window) -> None:
    from metrobench.kvwindow.spec import _longest_hit

    rng = random.Random(2)
    sinks = window.sink_blocks(BLOCK)

    def usable(length: int, present: set[int]) -> bool:
        dead = window.dead_blocks(length * BLOCK, BLOCK)
        needed = set(range(min(sinks, length))) | set(range(max(sinks, dead[1]), length))
        return needed <= present

    lengths: defaultdict[int, int] = defaultdict(int)
    for _ in range(400):
        limit, unit = rng.randrange(40), rng.choice([1, 1, 2, 3])
        present = {i for i in range(limit) if rng.random() < rng.choice([0.5, 0.9, 0.97])}
        got = _longest_hit(lambda i, here=present: [i] if i in here else None, limit, window, BLOCK, unit)
        length = max(got, default=-1) + 1
        best = max(n for n in range(0, limit + 1, unit) if usable(n, present))
        if window.exact and window.window <= BLOCK:
            assert length <= best
        else:
            assert length == best
        assert set(got) <= present
        assert usable(length, set(got))
        lengths[length] += 1
    assert len(lengths) > 5


def test_a_block_size_that_does_not_divide_the_window_is_refused(vllm: None) -> None:
    from dataclasses import replace

    from vllm.v1.core.block_pool import BlockPool

    from metrobench.kvwindow.spec import SinkWindowManager

    spec = replace(spec_of(Window(64, 32, 16)), block_size=48)
    with pytest.raises(ValueError, match=r"not in whole blocks of 48 tokens"):
        SinkWindowManager(
            spec,
            block_pool=BlockPool(9, False, 48),
            enable_caching=False,
            kv_cache_group_id=0,
            scheduler_block_size=48,
        )


def test_builders_are_given_full_attention(vllm: None) -> None:
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    spec = spec_of(Window(64, 32, 16))
    assert type(spec.as_full()) is FullAttentionSpec
    assert spec.as_full().sliding_window is None
    assert spec.as_full().page_size_bytes == spec.page_size_bytes
    assert spec.mask == Window(64, 32, 16)
