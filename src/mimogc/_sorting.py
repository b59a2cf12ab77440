"""Sorts edges into CSR and CSC by counting, in compiled code where there is some, else in torch."""

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor

from mimogc._library import library

# rowptr, col, position, colptr, row, edge: the first six fields of a Graph, all int32.
Arrays = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
_INT32_MAX = 2**31 - 1


def sort_edges(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> Arrays:
    """CSR and CSC of the edges src → dst, sorted by (dst, src) and (src, dst), equal edges in the given order.

    With `replace_loops` the self-loops are dropped and one per node is added. An index outside its range raises
    an IndexError that names it.
    """
    if torch.compiler.is_compiling():
        rowptr, col, position, colptr, row, edge = torch.ops.mimogc.sort_edges(
            src, dst, num_src, num_dst, replace_loops
        )
        return rowptr, col, position, colptr, row, edge
    return _sort_edges(src, dst, num_src, num_dst, replace_loops)


def _sort_edges(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> Arrays:
    capacity = src.numel() + (min(num_src, num_dst) if replace_loops else 0)
    if max(capacity, num_src + 1, num_dst + 1) > _INT32_MAX:
        raise ValueError(f"edge_index: at most {_INT32_MAX} nodes and edges, got {capacity} edges, "
                         f"{num_src} sources and {num_dst} targets")  # fmt: skip
    if src.device.type == "cpu" and (function := _native()) is not None:
        return _sort_native(function, src, dst, num_src, num_dst, replace_loops, capacity)
    return sort_reference(src, dst, num_src, num_dst, replace_loops)


@cache
def _native() -> Any:
    loaded = library()
    if loaded is None:
        return None
    function = loaded.mimogc_sort_edges
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    function.argtypes = [pointer, pointer, integer, integer, integer, ctypes.c_int, pointer]
    function.restype = integer
    return function


def _sort_native(
    function: Any, src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool, capacity: int
) -> Arrays:
    out = torch.empty(num_dst + num_src + 2 + 4 * capacity, dtype=torch.int32)
    src, dst = src.contiguous(), dst.contiguous()
    if src.numel() and not (src.data_ptr() and dst.data_ptr()):
        raise TypeError(f"edge_index: expected a tensor with memory of its own, got {type(src).__name__}")
    found = function(
        src.data_ptr(), dst.data_ptr(), src.numel(), num_src, num_dst, replace_loops, out.data_ptr()
    )
    if found < 0:
        _raise_out_of_range(src, dst, -1 - found, num_src, num_dst)
    sizes = [num_dst + 1, num_src + 1, capacity, capacity, capacity, capacity]
    rowptr, colptr, *edges = out.split(sizes)
    if found < capacity:
        edges = [array[:found] for array in edges]
    col, position, row, edge = edges
    return rowptr, col, position, colptr, row, edge


def sort_reference(src: Tensor, dst: Tensor, num_src: int, num_dst: int, replace_loops: bool) -> Arrays:
    """The specification of `sort_edges`, in plain torch, on any device."""
    bad = (src < 0) | (src >= num_src) | (dst < 0) | (dst >= num_dst)
    if bool(bad.any()):
        _raise_out_of_range(src, dst, int(bad.nonzero()[0]), num_src, num_dst)
    position = torch.arange(src.numel(), device=src.device)
    if replace_loops:
        keep = src != dst
        loops = torch.arange(min(num_src, num_dst), device=src.device)
        src, dst = torch.cat([src[keep], loops]), torch.cat([dst[keep], loops])
        position = torch.cat([position[keep], torch.full_like(loops, -1)])
    by_dst = torch.argsort(src, stable=True)
    by_dst = by_dst[torch.argsort(dst[by_dst], stable=True)]
    src, dst, position = src[by_dst], dst[by_dst], position[by_dst]
    edge = torch.argsort(src, stable=True)

    def pointer(index: Tensor, size: int) -> Tensor:
        return torch.nn.functional.pad(torch.bincount(index, minlength=size).cumsum(0), (1, 0))

    arrays = (pointer(dst, num_dst), src, position, pointer(src, num_src), dst[edge], edge)
    rowptr, col, position, colptr, row, edge = (array.int() for array in arrays)
    return rowptr, col, position, colptr, row, edge


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
