"""What a metrics page of vLLM or SGLang says of its KV pool, by the names of all their versions. Pure.

vLLM: `kv_cache_usage_perc` (once `gpu_cache_usage_perc`), a fraction in spite of its name. Sessions that wait for
their next input count as waiting, `deferred` by reason; those that wait for capacity hold nothing yet.
SGLang: `num_used_tokens` of `max_total_num_tokens`, or `token_usage`, the fullest of its pools.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from metrobench.errors import UsageError
from metrobench.predict.model import NULL_BLOCKS, Pool

NEEDED = "vllm:kv_cache_usage_perc or sglang:token_usage"
SAME_POOL = 0.02
"""Difference of two fractions up to which SGLang's fullest pool is the one whose size it names."""

Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """One engine at one moment."""

    used: float
    """Fraction of the KV pool in use, 0 to 1."""
    sessions: float | None
    """Requests that hold blocks."""
    pool: Pool | None
    moved: float | None
    """Tokens taken and decoded since the engine started."""
    started: float | None
    """When the process started, seconds since 1970."""


def read_page(text: str) -> dict[str, Reading]:
    """The engines on a page by their labels. Raises UsageError where it is no such page."""
    values: dict[tuple[str, str], Values] = defaultdict(dict)
    configs: dict[str, dict[str, str]] = {}
    started: float | None = None
    try:
        for sample in _samples(text):
            name = sample.name.replace(":", "_", 1)
            if name == "process_start_time_seconds":
                started = float(sample.value)
            elif name.startswith(("vllm_", "sglang_")):
                if name.endswith("cache_config_info"):
                    configs[_number(sample.labels)] = dict(sample.labels)
                else:
                    _keep(values[sample.labels.get("model_name", ""), _number(sample.labels)], name, sample)
    except (ValueError, KeyError, IndexError) as error:
        raise UsageError("this is no page of Prometheus metrics", f"it should have {NEEDED}") from error
    readings = {}
    for (model, number), seen in values.items():
        reading = _reading(seen, configs.get(number, {}), started)
        if reading is not None:
            readings[f"{model} {number}".strip()] = reading
    if not readings:
        raise UsageError(
            f"this metrics page has no gauge of a KV pool ({NEEDED})",
            "SGLang shows it with --enable-metrics; vLLM unless --disable-log-stats is set",
        )
    return readings


def _samples(text: str) -> Iterable[Sample]:
    for family in text_string_to_metric_families(text):
        yield from family.samples


def _number(labels: dict[str, str]) -> str:
    """Which engine of a page; `cache_config_info` names it, but not its model."""
    return labels.get("engine") or labels.get("dp_rank") or ""


def _keep(values: Values, name: str, sample: Sample) -> None:
    """Each reason by itself; of several ranks the largest counts."""
    if name.endswith(("_bucket", "_created")):
        return
    reason = sample.labels.get("reason")
    key = f"{name}/{reason}" if reason else name
    value = float(sample.value)
    values[key] = value if key not in values else max(values[key], value)


def _reading(values: Values, config: dict[str, str], started: float | None) -> Reading | None:
    used = values.get("vllm_kv_cache_usage_perc", values.get("vllm_gpu_cache_usage_perc"))
    if used is not None:
        reading = Reading(used, _vllm_sessions(values), _vllm_pool(config), _moved(values, "vllm"), started)
    elif (found := _sglang_used(values)) is not None:
        used, pool = found
        reading = Reading(used, _sglang_sessions(values), pool, _moved(values, "sglang"), started)
    else:
        return None
    return reading if 0.0 <= used <= 1.5 else None


def _vllm_sessions(values: Values) -> float | None:
    running, waiting = values.get("vllm_num_requests_running"), values.get("vllm_num_requests_waiting")
    if running is None:
        return None
    deferred = values.get("vllm_num_requests_waiting_by_reason/deferred", waiting or 0.0)
    return running + deferred + values.get("vllm_num_requests_swapped", 0.0)


def _vllm_pool(config: dict[str, str]) -> Pool | None:
    """None too where layers of several kinds share the pool: their blocks are no tokens of one session."""
    blocks, size = _whole(config.get("num_gpu_blocks")), _whole(config.get("block_size"))
    effective = _whole(config.get("effective_attention_block_size"))
    if blocks is None or size is None or effective not in (None, size):
        return None
    return Pool(blocks, size)


def _sglang_used(values: Values) -> tuple[float, Pool | None] | None:
    usage, held = values.get("sglang_token_usage"), values.get("sglang_num_used_tokens")
    total = values.get("sglang_max_total_num_tokens")
    if held is None or not total:
        return None if usage is None else (usage, None)
    own = held / total
    if usage is not None and usage - own > SAME_POOL:
        return usage, None
    page = max(1, round(values.get("sglang_page_size", 1.0)))
    return own, Pool(int(total // page) + NULL_BLOCKS, page)


def _sglang_sessions(values: Values) -> float | None:
    streaming = values.get("sglang_num_streaming_sessions")
    if streaming:
        return streaming
    running = values.get("sglang_num_running_reqs")
    return None if running is None else running + values.get("sglang_num_paused_reqs", 0.0)


def _moved(values: Values, server: str) -> float | None:
    counters = (f"{server}_{name}_tokens{end}" for name in ("prompt", "generation") for end in ("_total", ""))
    found = [values[name] for name in counters if name in values]
    return sum(found) if found else None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None
