"""The compiled kernels as Python functions on tensors: shapes in, shapes out, no gradients and no argument checks."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from functools import cache
from typing import Any

import torch
from torch import Tensor

from mimogc._library import library
from mimogc.graph import Graph

_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


class Shape(IntEnum):
    """What a row of gathered features is, and what becomes of the K graphs (`MimogcShape` in mimogc.h)."""

    HEADS_TO_SUM = 0  # [N, K, C] → [N, C]
    SHARED_TO_HEADS = 1  # [N, C] → [N, K, C]
    HEADS_TO_HEADS = 2  # [N, K, C] → [N, K, C]


_switched_off: ContextVar[bool] = ContextVar("switched_off", default=False)


def available(value: Tensor) -> bool:
    """Whether there are kernels for this tensor's device and type, and they may be used (not under torch.func)."""
    known = value.dtype in _SUFFIX and value.device.type == "cpu" and library() is not None
    return known and not _switched_off.get() and not torch._C._are_functorch_transforms_active()


@contextmanager
def use_reference() -> Iterator[None]:
    """Within this block (and this thread) the operators run in plain torch, for comparison."""
    token = _switched_off.set(True)
    try:
        yield
    finally:
        _switched_off.reset(token)


@cache
def function(name: str, dtype: torch.dtype) -> Any:
    """The kernel of this name for numbers of this type."""
    found = getattr(library(), f"mimogc_{name}_{_SUFFIX[dtype]}")
    real = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}[dtype]
    kinds = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "n": ctypes.c_int32, "r": real, "d": ctypes.c_double}
    found.argtypes = [kinds[kind] for kind in _ARGUMENTS[name]]
    found.restype = ctypes.c_int64 if name == "readout" else None
    return found


# p pointer, i int64, n int32, r real number of the type, d double: the signatures of mimogc.h
_ARGUMENTS = {
    "sum": "ipppiinpppn",
    "dot": "ipppiinpppn",
    "sum_grad": "ipppiinpppppn",
    "tanh_sum": "iippiinppipppn",
    "tanh_sum_grad": "iippppiippipppppppn",
    "scores": "iiirpppn",
    "pair_scores": "ippiirppppn",
    "pair_scores_grad": "iipppppiirpppppppn",
    "layer": "iipppiiirppppppppppn",
    "layer_grad": "iipppppiiirpppppppppppppppn",
    "readout": "iiiipppppppppp",
    "readout_grad": "iiiipppppppppppp",
    "adam": "ippdddddipppn",
}


def pointer(value: Tensor | None) -> int | None:
    """The address of the values, null where there are none."""
    return None if value is None else value.data_ptr()


def sum_heads(alpha: Tensor, h: Tensor, graph: Graph, shape: Shape) -> Tensor:
    """Over the edges into each node: [num_dst, C], or [num_dst, K, C] for the shapes that keep the heads."""
    return _sum(graph.rowptr, graph.sources, None, alpha, h, shape)


def sum_transposed(alpha: Tensor, g: Tensor, graph: Graph, shape: Shape) -> Tensor:
    """Over the edges out of each node, α being that of the edge: [num_src, K, C] or [num_src, C]."""
    return _sum(graph.colptr, graph.targets, graph.slot, alpha, g, shape)


def _sum(
    ptr: Tensor, neighbour: Tensor, edge: Tensor | None, alpha: Tensor, h: Tensor, shape: Shape
) -> Tensor:
    alpha, h = alpha.contiguous(), h.contiguous()
    rows, heads, channels = ptr.numel() - 1, alpha.size(1), h.size(-1)
    out = h.new_empty((rows, channels) if shape == Shape.HEADS_TO_SUM else (rows, heads, channels))
    function("sum", h.dtype)(
        rows, ptr.data_ptr(), neighbour.data_ptr(), pointer(edge), heads, channels, shape,
        alpha.data_ptr(), h.data_ptr(), out.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return out


def dot(g: Tensor, h: Tensor, graph: Graph, shape: Shape) -> Tensor:
    """[E, K]: ⟨g_i, h_k(j)⟩ of every edge; g is [num_dst, C], or [num_dst, K, C] with HEADS_TO_HEADS."""
    g, h = g.contiguous(), h.contiguous()
    _, heads, channels = h.shape
    out = h.new_empty(graph.num_edges, heads)
    function("dot", h.dtype)(
        graph.num_src, graph.colptr.data_ptr(), graph.targets.data_ptr(), graph.slot.data_ptr(), heads, channels,
        shape, g.data_ptr(), h.data_ptr(), out.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return out


def sum_grad(alpha: Tensor, h: Tensor, g: Tensor, graph: Graph, shape: Shape) -> tuple[Tensor, Tensor]:
    """Gradients of `sum_heads` to alpha and h, in one pass."""
    alpha, h, g = alpha.contiguous(), h.contiguous(), g.contiguous()
    grad_alpha, grad_h = torch.empty_like(alpha), torch.empty_like(h)
    function("sum_grad", h.dtype)(
        graph.num_src, graph.colptr.data_ptr(), graph.targets.data_ptr(), graph.slot.data_ptr(), h.size(1), h.size(2),
        shape, alpha.data_ptr(), g.data_ptr(), h.data_ptr(), grad_h.data_ptr(), grad_alpha.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return grad_alpha, grad_h


def tanh_sum(s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, graph: Graph) -> Tensor:
    """[num_dst, C]: Σ_k Σ_j tanh(s_k(i) + t_k(j) + edge_k) h_k(j)."""
    out = h.new_empty(graph.num_dst, h.size(-1))
    tanh_sum_rows(s, t, edge, h, graph, Shape.HEADS_TO_SUM, 0, graph.num_dst, out)
    return out


def tanh_sum_rows(
    s: Tensor,
    t: Tensor,
    edge: Tensor | None,
    h: Tensor,
    graph: Graph,
    shape: Shape,
    first: int,
    rows: int,
    out: Tensor,
) -> None:
    """The same for `rows` rows from `first`; SHARED_TO_HEADS takes h [N, F] and writes out [rows, K, F]."""
    function("tanh_sum", h.dtype)(
        first, rows, graph.rowptr.data_ptr(), graph.sources.data_ptr(), s.size(1), h.size(-1), shape, s.data_ptr(),
        t.data_ptr(), s.stride(0), pointer(edge), h.data_ptr(), out.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip


def tanh_sum_grad(
    s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, g: Tensor, graph: Graph
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `tanh_sum` to s, t, h and to the scores [E, K]."""
    heads, channels = s.size(1), h.size(-1)
    grad_s, grad_t, grad_h = torch.empty_like(s), torch.empty_like(t), torch.empty_like(h)
    grad_score = h.new_empty(graph.num_edges, heads)
    function("tanh_sum_grad", h.dtype)(
        graph.num_src, graph.num_dst, graph.colptr.data_ptr(), graph.targets.data_ptr(), graph.slot.data_ptr(),
        graph.rowptr.data_ptr(), heads, channels, s.data_ptr(), t.data_ptr(), heads, pointer(edge),
        g.data_ptr(), h.data_ptr(), grad_h.data_ptr(), grad_s.data_ptr(), grad_t.data_ptr(),
        grad_score.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return grad_s, grad_t, grad_h, grad_score


def scores(h: Tensor, att: Tensor, slope: float) -> Tensor:
    """[N, M]: LeakyReLU(h) attᵀ from h [N, width] and att [M, width]."""
    out = h.new_empty(h.size(0), att.size(0))
    function("scores", h.dtype)(
        h.size(0), h.size(1), att.size(0), slope, h.data_ptr(), att.data_ptr(), out.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return out


def pair_scores(source: Tensor, target: Tensor, att: Tensor, slope: float, graph: Graph) -> Tensor:
    """[E, K]: att_k · LeakyReLU(source_k(j) + target_k(i)) of every edge; source, target [N, K, C], att [K, C]."""
    _, heads, channels = source.shape
    out = source.new_empty(graph.num_edges, heads)
    function("pair_scores", source.dtype)(
        graph.num_dst, graph.rowptr.data_ptr(), graph.sources.data_ptr(), heads, channels, slope, source.data_ptr(),
        target.data_ptr(), att.data_ptr(), out.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return out


def pair_scores_grad(
    source: Tensor, target: Tensor, att: Tensor, slope: float, g: Tensor, graph: Graph
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `pair_scores` to source, target and att."""
    _, heads, channels = source.shape
    grads = torch.empty_like(source), torch.empty_like(target), torch.empty_like(att)
    function("pair_scores_grad", source.dtype)(
        graph.num_src, graph.num_dst, graph.rowptr.data_ptr(), graph.sources.data_ptr(), graph.colptr.data_ptr(),
        graph.targets.data_ptr(), graph.slot.data_ptr(), heads, channels, slope, source.data_ptr(),
        target.data_ptr(), att.data_ptr(), g.data_ptr(), *(grad.data_ptr() for grad in grads),
        torch.get_num_threads(),
    )  # fmt: skip
    return grads
