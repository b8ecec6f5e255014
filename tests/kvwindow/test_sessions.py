"""Streaming sessions through a real engine against a plain forward pass under the mask."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from metrobench.kvwindow import SCHEDULER, Window, parse

from . import models as zoo
from .engine import Engine, Turn, converse, forked, poisoned

SIZES = [1, 2, 7, 33, 64, 100, 150, 260, 410]
TOLERANCE = 2e-4
"""fp32 noise of three layers; what full attention would give is far outside (checked)."""

pytestmark = pytest.mark.engine


def windowed_engine(path: str, **options: Any) -> Engine:
    from metrobench.kvwindow import register

    register()
    return Engine(path, scheduler_cls=SCHEDULER, **options)


def talk(
    path: str, rounds: int, poison: bool, options: dict[str, Any], tail: Sequence[int] = ()
) -> tuple[dict[str, list[Turn]], dict[str, Any]]:
    """Sessions `a`, `b`, `c` of `rounds` chunks, and figures of the engine; runs in a fork."""
    engine = windowed_engine(path, **options)
    free = engine.free_blocks
    with poisoned(engine) if poison else nullcontext():
        turns = converse(engine, {"a": 1, "b": 2, "c": 3}, rounds, SIZES, zoo.TEXT, tail)
    facts = {"held": [engine.held(name) for name in turns], "mask": engine.manager.kv_cache_spec.mask}
    for name in turns:
        engine.close(name)
    engine.settle()
    return turns, facts | {"lost": free - engine.free_blocks}


def compare(turns: dict[str, list[Turn]], model: Any, window: Window | None) -> tuple[float, int, int]:
    """Largest difference of log-probabilities, greedy tokens that agree, tokens; of all turns."""
    worst, agree, total = 0.0, 0, 0
    for session in turns.values():
        last = session[-1]
        expected = zoo.log_probabilities(model, last.context + last.answer.tokens[:-1], window)
        for turn in session:
            for step, top in enumerate(turn.answer.logprobs):
                row = expected[len(turn.context) - 1 + step]
                worst = max(worst, *(abs(float(row[token]) - value) for token, value in top.items()))
                agree += int(row.argmax()) == turn.answer.tokens[step]
                total += 1
    return worst, agree, total


def check(turns: dict[str, list[Turn]], facts: dict[str, Any], model: Any, window: Window) -> None:
    """The answers are those of the mask, full attention would give others, blocks are bounded and came back."""
    assert facts["mask"] == window
    worst, agree, total = compare(turns, model, window)
    assert worst < TOLERANCE
    assert agree == total
    assert compare({"a": turns["a"]}, model, None)[0] > 0.1
    assert all(held <= window.columns(32) + 1 for held in facts["held"])
    assert facts["lost"] == 0
    assert max(len(session[-1].context) for session in turns.values()) > 3 * window.columns(32) * 32


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "qwen3_moe"])
def test_answers_are_those_of_the_mask(family: str, models: Path) -> None:
    path = zoo.make(family, models)
    turns, facts = forked(talk, path, 10, True, {}, env={"KVWINDOW": "128+64"})
    check(turns, facts, zoo.reference(path), parse("128+64").on(32))


def talk_mrope(path: str) -> tuple[dict[str, list[Turn]], dict[str, Any]]:
    zoo.register_qwen2_vl()
    return talk(path, 10, True, {"limit_mm_per_prompt": {"image": 0, "video": 0}}, zoo.PICTURE)


def test_multimodal_rotary_positions(models: Path) -> None:
    path = zoo.make("qwen2_vl", models)
    turns, facts = forked(talk_mrope, path, env={"KVWINDOW": "128+64"})
    check(turns, facts, zoo.reference(path), parse("128+64").on(32))
    for session in turns.values():
        time, height, width = zoo.rotary_positions(session[-1].context)
        assert (time != height).any()
        assert (height != width).any()
        assert time[-1] < len(time) - 1


@pytest.mark.parametrize("caching", [False, True])
def test_layers_with_a_window_of_their_own_keep_it(caching: bool, models: Path) -> None:
    path = zoo.make("gemma3", models)
    options = {"enable_prefix_caching": caching, "num_gpu_blocks_override": 160}
    turns, facts = forked(talk, path, 10, not caching, options, env={"KVWINDOW": "128+64"})
    check(turns, facts, zoo.reference(path), parse("128+64").on(32))


@pytest.mark.parametrize("text", ["100+5,align=64", "64+0", "32+32,align=128", "1+300"])
def test_any_window(text: str, models: Path) -> None:
    path = zoo.make("llama", models)
    turns, facts = forked(talk, path, 8, True, {}, env={"KVWINDOW": text})
    check(turns, facts, zoo.reference(path), parse(text).on(32))


def test_prefix_caching_changes_nothing(models: Path) -> None:
    path = zoo.make("llama", models)
    options = {"enable_prefix_caching": True}
    turns, facts = forked(talk, path, 10, False, options, env={"KVWINDOW": "128+64"})
    check(turns, facts, zoo.reference(path), parse("128+64").on(32))


def test_a_window_longer_than_the_context_is_full_attention(models: Path) -> None:
    path = zoo.make("llama", models)
    options = {"num_gpu_blocks_override": 160}
    turns, facts = forked(talk, path, 5, True, options, env={"KVWINDOW": "1048576+4096"})
    worst, agree, total = compare(turns, zoo.reference(path), None)
    assert worst < TOLERANCE
    assert agree == total
    assert facts["lost"] == 0


def come_back(path: str, first: list[int], second: list[int]) -> tuple[list[Turn], list[tuple[int, int]]]:
    """Two sessions one after the other; of each its answer, and the tokens and freed blocks of its prefix-cache hit."""
    engine = windowed_engine(path, enable_prefix_caching=True, num_gpu_blocks_override=100)
    manager, hits, turns = engine.scheduler.kv_cache_manager, [], []
    look_up = manager.get_computed_blocks

    def noted(request: Any) -> Any:
        found = look_up(request)
        hits.append((found[1], sum(block.is_null for group in found[0].blocks for block in group)))
        return found

    manager.get_computed_blocks = noted
    for name, chunk in (("first", first), ("second", second)):
        engine.send(name, chunk)
        engine.run()
        engine.close(name)
        engine.settle()
        turns.append(Turn(chunk, engine.answers[name][0]))
    return turns, hits


def test_a_prefix_cache_hit_without_its_middle_gives_the_same_answers(models: Path) -> None:
    path = zoo.make("llama", models)
    draw = random.Random(4)
    first = [draw.randrange(3, zoo.TEXT) for _ in range(700)]
    second = first[:650] + [draw.randrange(3, zoo.TEXT) for _ in range(60)]
    turns, hits = forked(come_back, path, first, second, env={"KVWINDOW": "128+64"})
    assert hits[0] == (0, 0)
    assert hits[1][0] == 640
    assert hits[1][1] > 0, "the freed middle was cached still: nothing was tested"
    window = parse("128+64").on(32)
    worst, agree, total = compare({"first": turns[:1], "second": turns[1:]}, zoo.reference(path), window)
    assert worst < TOLERANCE
    assert agree == total


def test_a_pool_much_smaller_than_the_sessions(models: Path) -> None:
    path = zoo.make("llama", models)
    window = parse("128+64").on(32)
    blocks = 3 * window.resident_blocks(64, 32) + 1
    options = {"num_gpu_blocks_override": blocks, "max_num_batched_tokens": 64}
    turns, facts = forked(talk, path, 10, True, options, env={"KVWINDOW": "128+64"})
    check(turns, facts, zoo.reference(path), window)
    assert sum(len(session[-1].context) for session in turns.values()) > 2 * blocks * 32


def greedy(path: str, chunks: list[list[int]], stock_window: int | None) -> list[Any]:
    """Tokens and log-probabilities of one session; on the stock engine where `stock_window` is given."""
    if stock_window is None:
        engine = windowed_engine(path)
    else:
        overrides = {"sliding_window": stock_window, "layer_types": ["sliding_attention"] * 3}
        overrides |= {"use_sliding_window": True, "max_window_layers": 0}
        engine = Engine(path, hf_overrides=overrides)
        assert engine.manager.kv_cache_spec.sliding_window == stock_window
    for chunk in chunks:
        engine.send("a", chunk)
        engine.run()
    return [(answer.tokens, answer.logprobs) for answer in engine.answers["a"]]


def test_without_sinks_it_is_the_stock_window_where_the_masks_coincide(models: Path) -> None:
    path = zoo.make("qwen3", models)
    chunks = [list(range(3 + i, 33 + i)) for i in range(6)]  # 6 * (30 + 2) tokens, all before t = W
    plugin = forked(greedy, path, chunks, None, env={"KVWINDOW": "224+0"})
    stock = forked(greedy, path, chunks, 224)
    assert plugin == stock
