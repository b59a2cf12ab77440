"""Sorts edges into CSR and CSC by counting, in compiled code where there is some, else in torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mimogc._library import library, on_huge_pages, run
from mimogc._transforms import is_transformed

# rowptr, sources, position, colptr, targets, slot: the first six fields of a Graph, all int32.
Arrays = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
_INT32_MAX = 2**31 - 1
Size = int | tuple[int, int]


def check_edge_index(edge_index: Tensor) -> None:
    if not isinstance(edge_index, Tensor):
        raise TypeError(f"edge_index: expected a tensor of shape [2, E], got {type(edge_index).__name__}")
    if edge_index.dtype.is_floating_point or edge_index.dtype.is_complex or edge_index.dtype == torch.bool:
        raise TypeError(f"edge_index: expected integers, got {edge_index.dtype}")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"edge_index: expected shape [2, E], got {list(edge_index.shape)}")
    if type(edge_index) is Tensor and edge_index.is_meta:
        raise ValueError("edge_index: expected numbers to sort, got a tensor on the device meta, which has none")


def sizes(num_nodes: Size | None, edge_index: Tensor) -> tuple[int, int]:
    if num_nodes is None:
        found = int(edge_index.max()) + 1 if edge_index.numel() else 0
        num_nodes = max(found, 0)
    if isinstance(num_nodes, tuple) and len(num_nodes) == 2:
        num_src, num_dst = num_nodes
    else:
        num_src = num_dst = num_nodes
    for size in (num_src, num_dst):
        if isinstance(size, bool) or not isinstance(size, int | torch.SymInt) or size < 0:
            raise ValueError(f"num_nodes: expected a count or a pair of counts, got {num_nodes!r}")
    return num_src, num_dst


def check_edge_attr(edge_attr: Tensor, edge_index: Tensor) -> None:
    if edge_attr.dim() == 0 or edge_attr.size(0) != edge_index.size(1):
        raise ValueError(
            f"edge_attr: expected one row per edge ({edge_index.size(1)}), got shape {list(edge_attr.shape)}"
        )
    if edge_attr.device != edge_index.device:
        raise ValueError(f"edge_attr: expected device {edge_index.device} like edge_index, got {edge_attr.device}")


def sorted_edges(edge_index: Tensor, num_nodes: Size | None, replace_loops: bool) -> tuple[Arrays, int, int]:
    """The sorted edges, and the numbers of sources and targets."""
    num_src, num_dst = sizes(num_nodes, edge_index)
    src, dst = edge_index if edge_index.dtype == torch.int32 else edge_index.long()
    return sort_edges(src, dst, num_src, num_dst, replace_loops), num_src, num_dst


def sort_edges(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> Arrays:
    """CSR and CSC of the edges src → dst, sorted by (dst, src) and (src, dst), equal edges in the given order.

    With `replace_loops` the self-loops are dropped and one per node is added. An index outside its range raises
    an IndexError that names it.
    """
    if torch.compiler.is_compiling():
        rowptr, sources, position, colptr, targets, slot = torch.ops.mimogc.sort_edges(
            src, dst, num_src, num_dst, replace_loops
        )
        return rowptr, sources, position, colptr, targets, slot
    return _sort_edges(src, dst, num_src, num_dst, replace_loops)


def _sort_edges(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> Arrays:
    capacity = src.numel() + (min(num_src, num_dst) if replace_loops else 0)
    _check_size(capacity, num_src, num_dst)
    if src.device.type == "cpu" and library() is not None:
        return _sort_native(src, dst, num_src, num_dst, replace_loops, capacity)
    return sort_reference(src, dst, num_src, num_dst, replace_loops)


def _check_size(edges: int, num_src: int, num_dst: int) -> None:
    if max(edges, num_src + 1, num_dst + 1) > _INT32_MAX:
        found = f"{edges} edges, {num_src} sources and {num_dst} targets"
        raise ValueError(f"edge_index: at most {_INT32_MAX} nodes and edges, got {found}")


def _sort_native(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool, capacity: int) -> Arrays:
    src, dst = (ends if ends.dtype == torch.int32 else ends.long() for ends in (src.resolve_neg(), dst.resolve_neg()))
    src, dst = src.contiguous(), dst.contiguous()
    dst = dst.to(src.dtype)
    if src.numel() and not (src.data_ptr() and dst.data_ptr()):
        raise TypeError(f"edge_index: expected a tensor with memory of its own, got {type(src).__name__}")
    out = _room(num_src, num_dst, capacity)
    given = src.data_ptr(), dst.data_ptr(), src.element_size(), src.numel()
    threads = torch.get_num_threads()
    found = run("mimogc_sort_edges", *given, num_src, num_dst, replace_loops, threads, out.data_ptr())
    if found < 0:
        _raise_out_of_range(src, dst, -1 - found, num_src, num_dst)
    return _arrays(out, num_src, num_dst, capacity, found)


def _room(num_src: int, num_dst: int, capacity: int) -> Tensor:
    return on_huge_pages(torch.empty(num_dst + num_src + 2 + 4 * capacity, dtype=torch.int32, device="cpu"))


def _arrays(out: Tensor, num_src: int, num_dst: int, capacity: int, edges: int) -> Arrays:
    rowptr, colptr, *rest = out.split([num_dst + 1, num_src + 1, capacity, capacity, capacity, capacity])
    sources, position, targets, slot = [array[:edges] for array in rest] if edges < capacity else rest
    return rowptr, sources, position, colptr, targets, slot


def add_loops(arrays: Arrays, num_src: int, num_dst: int, struct: Callable[[], Any], replace: bool) -> Arrays:
    """A sorted graph with one loop more at every node, behind its other loops, or with `replace` in their place.

    `struct` gives the graph as a MimogcGraph, where there are kernels. A new loop has position -1.
    """
    rowptr, sources, position = arrays[:3]
    edges, loops = sources.numel(), min(num_src, num_dst)
    if torch.compiler.is_compiling() or not (sources.is_cpu and library() is not None):
        return _add_loops_reference(rowptr, sources, position, num_src, num_dst, replace)
    _check_size(edges + loops, num_src, num_dst)
    if position.dtype != torch.int32 or position.shape != (edges,):
        raise ValueError(f"position: expected int32 [{edges}], got {position.dtype} {list(position.shape)}")
    position = position.contiguous()
    out, threads = _room(num_src, num_dst, edges + loops), torch.get_num_threads()
    found = run("mimogc_add_loops", struct(), position.data_ptr(), replace, threads, out.data_ptr())
    return _arrays(out, num_src, num_dst, edges + loops, found)


def _add_loops_reference(
    rowptr: Tensor, sources: Tensor, position: Tensor, num_src: int, num_dst: int, replace: bool
) -> Arrays:
    edges, device = sources.size(0), sources.device
    nodes = torch.arange(num_dst, device=device)
    src, dst = sources.long(), torch.repeat_interleave(nodes, rowptr.diff().long(), output_size=edges)
    if not replace:
        loops = torch.arange(min(num_src, num_dst), device=device)
        src, dst = torch.cat([src, loops]), torch.cat([dst, loops])
    rowptr, sources, place, colptr, targets, slot = sort_edges(src, dst, num_src, num_dst, replace)
    given = torch.cat([position, position.new_full((1,), -1)])
    position = given[torch.where(place < 0, edges, place.clamp(max=edges)).long()]
    return rowptr, sources, position, colptr, targets, slot


def sort_reference(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> Arrays:
    """The specification of `sort_edges`, in plain torch, on any device, which is waited for once."""
    bad = (src < 0) | (src >= num_src) | (dst < 0) | (dst >= num_dst)
    found, position, dropped = bad.any(), torch.arange(src.numel(), device=src.device), bad.new_zeros(())
    given = src, dst
    if replace_loops:  # loops go behind the last node, where they are cut off
        loop, loops = src == dst, torch.arange(min(num_src, num_dst), device=src.device)
        src, dst = (torch.cat([torch.where(loop, n, ends), loops]) for ends, n in ((src, num_src), (dst, num_dst)))
        position, dropped = torch.cat([position, torch.full_like(loops, -1)]), loop.sum()
    by_dst = torch.argsort(src, stable=True)
    by_dst = by_dst[torch.argsort(dst[by_dst], stable=True)]
    src, dst, position = src[by_dst], dst[by_dst], position[by_dst]
    slot = torch.argsort(src, stable=True)
    rowptr = torch.searchsorted(dst, torch.arange(num_dst + 1, device=dst.device, dtype=dst.dtype))
    colptr = torch.searchsorted(src[slot], torch.arange(num_src + 1, device=src.device, dtype=src.dtype))
    wrong, behind = torch.stack([found.long(), dropped.long()]).tolist()
    if wrong:
        _raise_out_of_range(*given, int(bad.nonzero()[0]), num_src, num_dst)
    edges = src.numel() - behind
    arrays = rowptr, src[:edges], position[:edges], colptr, dst[slot][:edges], slot[:edges]
    rowptr, sources, position, colptr, targets, slot = (array.int().contiguous() for array in arrays)
    return rowptr, sources, position, colptr, targets, slot


def sorted_attributes(edge_attr: Tensor, rowptr: Tensor, sources: Tensor, position: Tensor, loops: bool) -> Tensor:
    """Attributes in the sorted order; an added loop gets the mean over the other edges into its node."""
    if not loops:
        return edge_attr[position.long()]
    ones = [1] * (edge_attr.dim() - 1)
    num_dst = rowptr.size(0) - 1
    padded = torch.cat([edge_attr, edge_attr.new_zeros(1, *edge_attr.shape[1:])])  # position -1 reads zero
    known = padded[position.long()]
    degree = rowptr.diff().long()
    dst = torch.repeat_interleave(torch.arange(num_dst, device=sources.device), degree, output_size=sources.size(0))
    other = (dst != sources).to(edge_attr.dtype)
    total = _sum_of_rows(known * other.view(-1, *ones), rowptr, dst)
    count = _sum_of_rows(other, rowptr, dst).clamp(min=1)
    mean = _at_rows(total / count.view(-1, *ones), rowptr, dst)
    return torch.where((position < 0).view(-1, *ones), mean, known)


def _sum_of_rows(values: Tensor, rowptr: Tensor, dst: Tensor) -> Tensor:
    """[num_dst, ...] from values [E, ...] in the order of their destinations: on a GPU without atomics.

    A compiler and torch.func cannot look into `segment_reduce`, and it knows no integers, whose sums are exact.
    """
    if _adds_in_any_order(values):
        return values.new_zeros(rowptr.size(0) - 1, *values.shape[1:]).index_add(0, dst, values)
    out: Tensor = SumOfRows.apply(values, rowptr, dst)  # type: ignore[no-untyped-call]
    return out


def _at_rows(rows: Tensor, rowptr: Tensor, dst: Tensor) -> Tensor:
    """[E, ...] from rows [num_dst, ...], with that sum as its gradient."""
    out: Tensor = rows[dst] if _adds_in_any_order(rows) else AtRows.apply(rows, rowptr, dst)  # type: ignore[no-untyped-call]
    return out


def _adds_in_any_order(values: Tensor) -> bool:
    return values.is_cpu or is_transformed(values) or not values.dtype.is_floating_point


class SumOfRows(torch.autograd.Function):
    """One program of a GPU adds up a row, in its order."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rowptr: Tensor, dst: Tensor) -> Tensor:
        ctx.save_for_backward(rowptr, dst)
        # Without `unsafe` the offsets are checked, for which the device is waited for.
        return torch.segment_reduce(values, "sum", offsets=rowptr.long(), axis=0, unsafe=True, initial=0)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return AtRows.apply(g, *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


class AtRows(torch.autograd.Function):
    """Its transpose."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, rowptr: Tensor, dst: Tensor) -> Tensor:
        ctx.save_for_backward(rowptr, dst)
        return rows[dst]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return SumOfRows.apply(g, *ctx.saved_tensors), None, None  # type: ignore[no-untyped-call]


def last_loops(src: Tensor, dst: Tensor, num_dst: int) -> Tensor:
    """[num_dst]: the last self-loop of each node, -1 where it has none."""
    edges = torch.arange(src.size(0), device=src.device)
    none = torch.full((num_dst,), -1, device=src.device)
    return none.scatter_reduce(0, dst, torch.where(src == dst, edges, -1), "amax")


def _raise_out_of_range(src: Tensor, dst: Tensor, at: int, num_src: int, num_dst: int) -> None:
    j, i = int(src[at]), int(dst[at])
    side, index, size = ("source", j, num_src) if not 0 <= j < num_src else ("target", i, num_dst)
    raise IndexError(f"edge_index: expected every {side} in 0..{size - 1}, got {index} at edge {at}")


@torch.library.custom_op("mimogc::sort_edges", mutates_args=())
def _sort_edges_op(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> list[Tensor]:
    # A custom operator may not return views of one buffer.
    return [array.clone() for array in _sort_edges(src, dst, num_src, num_dst, replace_loops)]


@_sort_edges_op.register_fake
def _(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> list[Tensor]:
    edges = torch.library.get_ctx().new_dynamic_size() if replace_loops else src.numel()
    sizes = (num_dst + 1, edges, edges, num_src + 1, edges, edges)
    return [src.new_empty(size, dtype=torch.int32) for size in sizes]
