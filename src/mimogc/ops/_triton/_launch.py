"""How kernels are launched: the order of a graph they walk, the parts of its long rows, and the sizes of blocks.

The sizes are few, and with the types of the tensors they are all that distinguishes one compiled kernel from another:
`variants` lists them. No size was tuned on a GPU; each keeps a program within its registers.
"""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mimogc.graph import Graph
from mimogc.ops import _thresholds
from mimogc.ops._triton import _items, _scores, _sums

WARPS = 4
CHANNELS = (64, 128)  # of a block, in kernels with a block of one row's channels
COLUMNS = 128  # of a block, in kernels with a block of K · C columns
HEADS = (1, 4)  # of a block
TILE = 1024  # numbers of a block, so 8 per thread
SOFTMAX_HEADS, SOFTMAX_EDGES = 8, 32
TYPES = {torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16", torch.float16: "fp16"}
INTERPRETED_NUMBERS = 2**16  # of a block in the interpreter, which pays per block
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


class Order(NamedTuple):
    """One of the two orders of a graph, and the parts of its rows with many edges."""

    ptr: Tensor  # [rows + 1]
    nodes: Tensor  # [E], the other end of each edge
    slot: Tensor  # [E], where each edge is in the order by destination
    parts: Tensor  # [P, 4]: row, first edge, last edge; of a row's first part the end of its parts, else 0
    begin: Tensor  # [P]: the first part of the same row
    num_rows: int
    num_parts: int

    @property
    def items(self) -> int:
        return self.num_rows + self.num_parts


def by_target(graph: Graph) -> Order:
    return _order(graph, graph.rowptr, graph.sources, graph.num_dst)


def by_source(graph: Graph) -> Order:
    return _order(graph, graph.colptr, graph.targets, graph.num_src)


def _order(graph: Graph, ptr: Tensor, nodes: Tensor, rows: int) -> Order:
    split = _thresholds.SPLIT_EDGES
    out = ptr is graph.colptr
    number = graph._once(("triton parts", split), lambda: _numbers_of_parts(graph, split))[out]
    parts, begin = graph._once(("triton parts", split, out), lambda: _parts(ptr, number, split))
    return Order(ptr, nodes, graph.slot, parts, begin, rows, number)


def _counts(ptr: Tensor, split: int) -> Tensor:
    """[rows]: in how many parts each row is, none unless it has more than `split` edges."""
    degree = ptr.diff().long()
    return torch.where(degree > split, (degree + split - 1) // split, 0)


def _numbers_of_parts(graph: Graph, split: int) -> list[int]:
    """Of the order by destination and of that by source, for which the device is waited for: once per graph.

    A graph made for one call of a compiled program does not wait, and has room for as many parts as there can be.
    """
    if graph.num_edges <= split:
        return [0, 0]
    if "passing" in graph._cache:
        return [2 * graph.num_edges // split] * 2
    found: list[int] = torch.stack([_counts(ptr, split).sum() for ptr in (graph.rowptr, graph.colptr)]).tolist()
    return found


def _parts(ptr: Tensor, number: int, split: int) -> tuple[Tensor, Tensor]:
    """So many parts, of which the last ones are empty where there are fewer."""
    part = torch.arange(number, device=ptr.device)
    if not number:
        return ptr.new_empty((0, 4)), ptr.new_empty(0)
    count = _counts(ptr, split)
    ends = count.cumsum(0)
    row = torch.searchsorted(ends, part, right=True)
    inside, row = row < count.numel(), row.clamp(max=count.numel() - 1)
    begin = ends[row] - count[row]
    first = ptr[row] + (part - begin) * split
    last = torch.minimum(first + split, ptr[row + 1])
    end = torch.where(part == begin, ends[row], 0)
    columns = torch.stack([row, first, last, end], dim=1)
    return torch.where(inside.unsqueeze(1), columns, 0).to(ptr.dtype), begin.to(ptr.dtype)


def accumulated(dtype: torch.dtype) -> torch.dtype:
    """The type in which sums are made."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def channel_block(channels: int) -> int:
    return next((size for size in CHANNELS if channels <= size), CHANNELS[-1])


def head_blocks(dtype: torch.dtype) -> tuple[int, ...]:
    """Of one head, in float64, ptxas spills for sm_90."""
    return HEADS[1:] if dtype == torch.float64 else HEADS


def head_block(heads: int, dtype: torch.dtype) -> int:
    return head_blocks(dtype)[0 if heads == 1 else -1]


def row_blocks(size: int, **more: int) -> dict[str, int]:
    """Blocks of one row, and as many edges as make a tile with `size` columns (and heads)."""
    edges = TILE // (size * more.get("BK", 1))
    return {"BR": 1, "BE": edges, **more, "BC": size}


def gather_blocks(channels: int, tanh: bool) -> dict[str, int]:
    """Blocks of `gather_sum`; with tanh half as many edges where they are wide, for which ptxas spills (sm_90)."""
    blocks = row_blocks(channels)
    return blocks | {"BE": blocks["BE"] // 2} if tanh and channels == CHANNELS[-1] else blocks


def score_blocks(channels: int, edge: bool) -> dict[str, int]:
    """Blocks of `score_pairs`; with features of the edges the small one: for the large one ptxas spills (sm_80)."""
    return row_blocks(CHANNELS[0] if edge else channel_block(channels))


def launch(kernel: Any, items: int, grid: tuple[int, ...], arguments: tuple[Any, ...], **blocks: Any) -> None:
    """Run the kernel over blocks of items, and over the rest of the grid."""
    sizes = {name: size for name, size in blocks.items() if name in ("BR", "BE", "BK", "BC")}
    if INTERPRETED:
        most = max(1, INTERPRETED_NUMBERS // torch.Size(sizes.values()).numel())
        blocks["BR"] = min(most, 1 << (items - 1).bit_length())
    device = next(value.device for value in arguments if isinstance(value, Tensor))
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        kernel[(-(-items // blocks["BR"]), *grid)](*arguments, **blocks, num_warps=WARPS)


def add_parts(order: Order, partial: Tensor, out: Tensor) -> None:
    """Into the rows of `out` that are in parts, the sums of these; partial is [P, width]."""
    if order.num_parts:
        width = partial.size(1)
        arguments = (order.parts, partial, out, order.num_parts, width)
        launch(_items.add_parts, order.num_parts, (-(-width // COLUMNS),), arguments, BR=1, BC=COLUMNS)


class Variant(NamedTuple):
    """A kernel as it is compiled: what the pointers are typed after, and its constants."""

    kernel: Any
    dtype: torch.dtype
    constants: dict[str, Any]


def variants() -> Iterator[Variant]:
    """Every form in which a kernel can be launched on a GPU."""
    for dtype in TYPES:
        acc = constant_type(dtype)
        for size in CHANNELS:
            for tanh in (False, True):
                yield Variant(_sums.gather_sum, dtype, {"TANH": tanh, **gather_blocks(size, tanh)})
                for heads in head_blocks(dtype):
                    blocks = row_blocks(size, BK=heads)
                    yield Variant(_sums.spread_sum, dtype, {"TANH": tanh, "SAMPLE": True, **blocks})
                    if tanh and heads > 1:
                        yield Variant(_sums.spread_sum, dtype, {"TANH": True, "SAMPLE": False, **blocks})
            yield Variant(_sums.sample_pairs, dtype, row_blocks(size))
            yield Variant(_scores.score_pairs, dtype, {"ACC": acc, "EDGE": False, **score_blocks(size, False)})
        yield Variant(_scores.score_pairs, dtype, {"ACC": acc, "EDGE": True, **score_blocks(CHANNELS[0], True)})
        for slot in (False, True):
            yield Variant(_sums.flat_sum, dtype, {"SLOT": slot, **row_blocks(COLUMNS)})
            for edge in (False, True):
                yield Variant(_scores.pairs_grad, dtype, {"SLOT": slot, "EDGE": edge, **row_blocks(COLUMNS)})
        for grad in (False, True):
            blocks = {"BR": 1, "BE": SOFTMAX_EDGES, "BC": SOFTMAX_HEADS}
            yield Variant(_scores.softmax_rows, dtype, {"GRAD": grad, **blocks})
            yield Variant(_scores.softmax_parts, dtype, {"GRAD": grad, **blocks})
        yield Variant(_items.add_parts, dtype, {"BR": 1, "BC": COLUMNS})


def constant_type(dtype: torch.dtype) -> Any:
    """`accumulated` as Triton's type, for kernels without an array of that type."""
    import triton.language as tl

    return tl.float64 if dtype == torch.float64 else tl.float32
