"""Block-table compaction on the GPU: one Triton launch from a batch's device tensors to the batch the kernel sees.

Nothing is copied from or to the host. Same result as compaction.py.
"""

# mypy: ignore-errors
from __future__ import annotations

from vllm.triton_utils import tl, triton

POINTERS = ["query_start", "ends", "table", "rows_start", "rows_length", "rows_table"]


# One binary for every batch: launch.py compiles once and launches that.
@triton.jit(
    do_not_specialize=["num_requests", "table_stride", "table_columns"], do_not_specialize_on_alignment=POINTERS
)
def compact_kernel(
    query_start,  # [R + 1] int32
    ends,  # [R] int32, absolute lengths
    table,  # [R, table_columns] int32
    num_requests,
    table_stride,
    table_columns,
    rows_start,  # [V + 1] int32, out
    rows_length,  # [V] int32, out
    rows_table,  # [V, columns] int32, out
    split: tl.constexpr,
    exact: tl.constexpr,
    window: tl.constexpr,
    align: tl.constexpr,
    block: tl.constexpr,
    sink_blocks: tl.constexpr,
    columns: tl.constexpr,
    requests_p2: tl.constexpr,
    columns_p2: tl.constexpr,
):
    """One program a row. Integer divisions act on non-negative numbers: the device truncates towards zero."""
    row = tl.program_id(0)
    if split:
        index = tl.arange(0, requests_p2)
        live = index < num_requests
        start = tl.load(query_start + index, mask=live, other=0)
        stop = tl.load(query_start + index + 1, mask=live, other=0)
        end_of = tl.load(ends + index, mask=live, other=0)
        first_of = end_of - (stop - start)
        pieces = tl.maximum((tl.maximum(end_of, 1) - 1) // align - first_of // align + 1, 1)
        pieces = tl.where(live, pieces, 0)
        request = tl.sum((tl.cumsum(pieces, 0) <= row).to(tl.int32), 0)
        piece = row - tl.sum(tl.where(index < request, pieces, 0), 0)
        query = tl.load(query_start + request)
        end = tl.load(ends + request)
        first = end - (tl.load(query_start + request + 1) - query)
        group = first // align + piece
        low = tl.maximum(first, group * align)
        high = tl.minimum(end, (group + 1) * align)
        if row == 0:
            tl.store(rows_start, 0)
        tl.store(rows_start + row + 1, query + high - first)
    else:
        request = row
        high = tl.load(ends + row)
        low = tl.maximum(high - 1, 0)
    if exact:
        visible = low - window + 1
    else:
        visible = low // align * align - window
    omitted = tl.maximum(tl.maximum(visible, 0) // block - sink_blocks, 0)
    tl.store(rows_length + row, high - omitted * block)
    column = tl.arange(0, columns_p2)
    source = tl.minimum(column + tl.where(column < sink_blocks, 0, omitted), table_columns - 1)
    ids = tl.load(table + request.to(tl.int64) * table_stride + source, mask=column < columns, other=0)
    tl.store(rows_table + row.to(tl.int64) * columns + column, ids, mask=column < columns)
