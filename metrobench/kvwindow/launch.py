"""Launches the compaction kernel into buffers that live as long as the engine."""

from __future__ import annotations

from typing import Any

import torch

from metrobench.kvwindow.kernel import compact_kernel
from metrobench.kvwindow.mask import Window


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


class Launcher:
    """One kernel launch a call; no allocation, no copy between host and device."""

    def __init__(self, window: Window, block: int, requests: int, rows: int, device: torch.device) -> None:
        """`requests`, `rows`: the most a batch can have."""
        columns = window.columns(block)
        self._start = torch.zeros(rows + 1, dtype=torch.int32, device=device)
        self._length = torch.zeros(rows, dtype=torch.int32, device=device)
        self._table = torch.zeros(rows, columns, dtype=torch.int32, device=device)
        self._constants = {
            "exact": window.exact,
            "window": window.window,
            "align": window.align,
            "block": block,
            "sink_blocks": window.sink_blocks(block),
            "columns": columns,
            "requests_p2": _power_of_two(requests),
            "columns_p2": _power_of_two(columns),
        }
        for cut in (False, True):  # compiled now: a compilation under traffic would stall every session
            self._run(self._start[:2], self._length[:1], self._table[:1], 1, 1, cut)

    def __call__(self, batch: Any, rows: int, cut: bool) -> dict[str, Any]:
        """The device fields of the compact metadata: views of the buffers, overwritten by the next call.

        rows: rows of the batch. cut: whether a request may have more than one query.
        """
        self._run(batch.query_start_loc, batch.seq_lens, batch.block_table_tensor, batch.num_reqs, rows, cut)
        out = {"seq_lens": self._length[:rows], "block_table_tensor": self._table[:rows]}
        if cut:
            out["query_start_loc"] = self._start[: rows + 1]
        return out

    def _run(self, start: Any, ends: Any, table: Any, requests: int, rows: int, cut: bool) -> None:
        compact_kernel[(rows,)](
            start,
            ends,
            table,
            requests,
            table.stride(0),
            table.shape[1],
            self._start,
            self._length,
            self._table,
            split=cut,
            **self._constants,
        )
