"""From vLLM's batch metadata to the compact one: the whole data plane of the plugin, once a step.

Decode steps use device data only and fixed addresses, so CUDA graphs replay them. Steps with longer queries need one
number from the host, the count of rows; it comes from lengths that vLLM keeps on the host anyway. Nothing is copied
between host and device and nothing waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from metrobench.kvwindow import compat
from metrobench.kvwindow.compaction import Compactor, Rows, count_rows, left_out, split
from metrobench.kvwindow.mask import Window


def max_rows(requests: int, tokens: int, align: int) -> int:
    """Most rows of a batch of `requests` requests and `tokens` query tokens cut at multiples of `align`."""
    return 2 * requests + tokens // align


class Rewriter:
    """Rewrites CommonAttentionMetadata. One per metadata builder; its buffers are overwritten at every step."""

    def __init__(self, window: Window, block: int, requests: int, rows: int, device: torch.device, host: bool) -> None:
        """`block`: tokens of a kernel block. `host`: whether the backend's builder reads lengths on the host."""
        self.window, self.block, self.host = window, block, host
        self.columns = window.columns(block)
        self.max_length = self.columns * block
        self._stale = dict.fromkeys(compat.known_fields(compat.STALE))
        self._stale_split = dict.fromkeys(compat.known_fields(compat.STALE_WHEN_SPLIT))
        self._compactor: Compactor | None = None
        if device.type == "cpu":
            self._compactor = Compactor(window, block, rows)
            return
        from metrobench.kvwindow.launch import Launcher

        self._launch = Launcher(window, block, requests, rows, device)

    def __call__(self, batch: Any) -> Any:
        """The compact metadata of `batch`, a CommonAttentionMetadata."""
        changes = dict(self._stale)
        changes["max_seq_len"] = min(batch.max_seq_len, self.max_length)
        if self._compactor is not None:
            changes.update(self._on_host(self._compactor, batch))
        else:
            changes.update(self._on_device(batch))
        compact = object.__new__(type(batch))  # a tenth of the time of dataclasses.replace
        compact.__dict__ = batch.__dict__ | changes
        return compact

    def _on_host(self, compactor: Compactor, batch: Any) -> dict[str, Any]:
        rows = split(batch.query_start_loc.numpy(), batch.seq_lens.numpy(), self.window.align)
        lengths, table = map(torch.from_numpy, compactor(rows, batch.block_table_tensor.numpy()))
        out: dict[str, Any] = {"seq_lens": lengths, "block_table_tensor": table}
        if len(rows.request) != batch.num_reqs:
            out.update(self._split(len(rows.request), batch))
            out["query_start_loc"] = out["query_start_loc_cpu"] = torch.from_numpy(rows.query_start)
        if self.host:
            out.update(compat.host_lengths(lengths))
        return out

    def _on_device(self, batch: Any) -> dict[str, Any]:
        if batch.max_query_len == 1:
            out = self._launch(batch, batch.num_reqs, cut=False)
            rows = None
        else:
            starts, ends = batch.query_start_loc_cpu.numpy(), batch.seq_lens_cpu_upper_bound.numpy()
            rows = split(starts, ends, self.window.align) if self.host else None
            count = len(rows.request) if rows else count_rows(starts, ends, self.window.align)
            out = self._launch(batch, count, cut=True)
            if count != batch.num_reqs:
                out |= self._split(count, batch)
                # Only the count is known here. A builder that wants more fails instead of reading stale starts.
                out["query_start_loc_cpu"] = torch.from_numpy(rows.query_start) if rows else None
        return out | (self._host_lengths(batch, rows) if self.host else {})

    def _split(self, count: int, batch: Any) -> dict[str, Any]:
        longest = min(batch.max_query_len, self.window.align)
        return self._stale_split | {"num_reqs": count, "max_query_len": longest}

    def _host_lengths(self, batch: Any, rows: Rows | None) -> dict[str, Any]:
        bound = batch.seq_lens_cpu_upper_bound
        if bound is None:
            return {}
        ends = rows.end if rows else bound.numpy()
        first = rows.first if rows else np.maximum(ends - 1, 0)
        lengths = ends - left_out(self.window, first, self.block) * self.block
        return compat.host_lengths(torch.from_numpy(lengths.astype(np.int32)))
