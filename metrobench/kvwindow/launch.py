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
        self._constants = (
            window.exact,
            window.window,
            window.align,
            block,
            window.sink_blocks(block),
            columns,
            _power_of_two(requests),
            _power_of_two(columns),
        )
        self._views: dict[int, tuple[Any, Any, Any]] = {}
        # Compiled now: a compilation under traffic would stall every session.
        self._compiled = {cut: self._compile(cut) for cut in (False, True)}

    def __call__(self, batch: Any, rows: int, cut: bool) -> dict[str, Any]:
        """The device fields of the compact metadata: views of the buffers, overwritten by the next call.

        rows: rows of the batch. cut: whether a request may have more than one query.
        """
        table = batch.block_table_tensor
        run = self._compiled[cut] or compact_kernel
        run[(rows, 1, 1)](*self._arguments(batch.query_start_loc, batch.seq_lens, table, batch.num_reqs, cut))
        views = self._views.get(rows)
        if views is None:
            views = self._views[rows] = self._start[: rows + 1], self._length[:rows], self._table[:rows]
        out = {"seq_lens": views[1], "block_table_tensor": views[2]}
        if cut:
            out["query_start_loc"] = views[0]
        return out

    def _arguments(self, start: Any, ends: Any, table: Any, requests: int, cut: bool) -> tuple[Any, ...]:
        out = self._start, self._length, self._table
        return start, ends, table, requests, table.stride(0), table.shape[1], *out, cut, *self._constants

    def _compile(self, cut: bool) -> Any:
        """The compiled kernel, whose launch costs a fraction of the JIT function's; None where it cannot be trusted.

        Its calling convention is Triton's own affair, so it has to reproduce the JIT function's result first.
        """
        table = torch.arange(1, 2 * self._table.shape[1] + 1, dtype=torch.int32, device=self._table.device)[None]
        window, align = self._constants[1:3]
        ends = torch.full((1,), window + 2 * align, dtype=torch.int32, device=table.device)
        start = torch.tensor([0, 1], dtype=torch.int32, device=table.device)
        arguments = self._arguments(start, ends, table, 1, cut)
        outputs = self._start[:2], self._length[:1], self._table[:1]
        compiled = compact_kernel[(1, 1, 1)](*arguments)
        expected = [tensor.clone() for tensor in outputs]
        try:
            for tensor in outputs:
                tensor.zero_()
            compiled[(1, 1, 1)](*arguments)
            return compiled if all(map(torch.equal, expected, outputs)) else None
        except (TypeError, AttributeError):
            return None
