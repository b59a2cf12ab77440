"""The compiled kernels as Python functions on tensors: shapes in, shapes out, no gradients and no argument checks."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

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
def _function(name: str, dtype: torch.dtype) -> Any:
    function = getattr(library(), f"mimogc_{name}_{_SUFFIX[dtype]}")
    real = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}[dtype]
    kinds = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "n": ctypes.c_int32, "r": real}
    function.argtypes = [kinds[kind] for kind in _ARGUMENTS[name]]
    function.restype = ctypes.c_int64 if name == "readout" else None
    return function


# p pointer, i int64, n int32, r real number: the signatures of mimogc.h
_ARGUMENTS = {
    "sum": "ipppiinpppn",
    "dot": "ipppiinpppn",
    "sum_grad": "ipppiinpppppn",
    "tanh_sum": "iippiinppipppn",
    "tanh_sum_grad": "iippppiippipppppppn",
    "scores": "iiirpppn",
    "pair_scores": "ippiirppppn",
    "pair_scores_grad": "iipppppiirpppppppn",
    "layer": "ippiiirpppppppppn",
    "layer_grad": "ippppiiirppppppppppppppppn",
    "readout": "iiiipppppppppp",
    "readout_grad": "iiiipppppppppppp",
}


def _pointer(value: Tensor | None) -> int | None:
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
    _function("sum", h.dtype)(
        rows, ptr.data_ptr(), neighbour.data_ptr(), _pointer(edge), heads, channels, shape,
        alpha.data_ptr(), h.data_ptr(), out.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return out


def dot(g: Tensor, h: Tensor, graph: Graph, shape: Shape) -> Tensor:
    """[E, K]: ⟨g_i, h_k(j)⟩ of every edge; g is [num_dst, C], or [num_dst, K, C] with HEADS_TO_HEADS."""
    g, h = g.contiguous(), h.contiguous()
    _, heads, channels = h.shape
    out = h.new_empty(graph.num_edges, heads)
    _function("dot", h.dtype)(
        graph.num_src, graph.colptr.data_ptr(), graph.targets.data_ptr(), graph.slot.data_ptr(), heads, channels,
        shape, g.data_ptr(), h.data_ptr(), out.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return out


def sum_grad(alpha: Tensor, h: Tensor, g: Tensor, graph: Graph, shape: Shape) -> tuple[Tensor, Tensor]:
    """Gradients of `sum_heads` to alpha and h, in one pass."""
    alpha, h, g = alpha.contiguous(), h.contiguous(), g.contiguous()
    grad_alpha, grad_h = torch.empty_like(alpha), torch.empty_like(h)
    _function("sum_grad", h.dtype)(
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
    _function("tanh_sum", h.dtype)(
        first, rows, graph.rowptr.data_ptr(), graph.sources.data_ptr(), s.size(1), h.size(-1), shape, s.data_ptr(),
        t.data_ptr(), s.stride(0), _pointer(edge), h.data_ptr(), out.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip


def tanh_sum_grad(
    s: Tensor, t: Tensor, edge: Tensor | None, h: Tensor, g: Tensor, graph: Graph
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `tanh_sum` to s, t, h and to the scores [E, K]."""
    heads, channels = s.size(1), h.size(-1)
    grad_s, grad_t, grad_h = torch.empty_like(s), torch.empty_like(t), torch.empty_like(h)
    grad_score = h.new_empty(graph.num_edges, heads)
    _function("tanh_sum_grad", h.dtype)(
        graph.num_src, graph.num_dst, graph.colptr.data_ptr(), graph.targets.data_ptr(), graph.slot.data_ptr(),
        graph.rowptr.data_ptr(), heads, channels, s.data_ptr(), t.data_ptr(), heads, _pointer(edge),
        g.data_ptr(), h.data_ptr(), grad_h.data_ptr(), grad_s.data_ptr(), grad_t.data_ptr(),
        grad_score.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return grad_s, grad_t, grad_h, grad_score


def scores(h: Tensor, att: Tensor, slope: float) -> Tensor:
    """[N, M]: LeakyReLU(h) attᵀ from h [N, width] and att [M, width]."""
    out = h.new_empty(h.size(0), att.size(0))
    _function("scores", h.dtype)(
        h.size(0), h.size(1), att.size(0), slope, h.data_ptr(), att.data_ptr(), out.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return out


# The products of a layer are computed by its kernel where W has at least so many rows and columns, and at most so many
# bytes; elsewhere by torch.
_SMALLEST_SIDE, _LARGEST_WEIGHT = 32, 2**18


def multiplies(weight: Tensor) -> bool:
    """Whether `layer` and `layer_grad` take x and weight, and not h."""
    small = weight.numel() * weight.element_size() <= _LARGEST_WEIGHT
    return small and min(weight.shape) >= _SMALLEST_SIDE


# weight [K·C, F], att [2K, K·C], edge [E, K], bias [C]; the last two may be missing
LayerWeights = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


def layer(
    x: Tensor | None, h: Tensor | None, weights: LayerWeights, slope: float, graph: Graph, gelu: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The paper's layer from x [N, F], or from h = x weightᵀ [N, K·C]: out [N, C], h, and the scores st [N, 2K].

    The scores are the targets' then the sources'. With `gelu`, out is GELU of it, and the derivative [N, C] of GELU is
    the fourth result.
    """
    weight, att, edge, bias = weights
    nodes, (width, features), heads = graph.num_dst, weight.shape, att.size(0) // 2
    h = weight.new_empty(nodes, width) if h is None else h
    st, out = h.new_empty(nodes, 2 * heads), h.new_empty(nodes, width // heads)
    derivative = torch.empty_like(out) if gelu else None
    _function("layer", h.dtype)(
        nodes, graph.rowptr.data_ptr(), graph.sources.data_ptr(), features, heads, width // heads, slope, _pointer(x),
        weight.data_ptr(), att.data_ptr(), _pointer(edge), _pointer(bias), h.data_ptr(), st.data_ptr(), out.data_ptr(),
        _pointer(derivative), torch.get_num_threads(),
    )  # fmt: skip
    return out, h, st, derivative


class LayerGradients(NamedTuple):
    """Those of `layer`; grad_score [E, K] is that of the edges' scores, x and weight are None unless asked for."""

    h: Tensor
    att: Tensor
    score: Tensor
    x: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


def layer_grad(
    x: Tensor | None,
    h: Tensor,
    weights: LayerWeights,
    slope: float,
    st: Tensor,
    derivative: Tensor | None,
    g: Tensor,
    graph: Graph,
    needs: tuple[bool, bool, bool],
) -> LayerGradients:
    """The gradients of `layer` from g [N, C]; `needs` says whether those to x, to weight and to bias are wanted."""
    weight, att, edge, _ = weights
    nodes, (width, features), heads = h.size(0), weight.shape, att.size(0) // 2
    grad_st, grad_h, grad_att = torch.empty_like(st), torch.empty_like(h), torch.empty_like(att)
    grad_score = h.new_empty(graph.num_edges, heads)
    scaled = None if derivative is None else torch.empty_like(derivative)
    grad_x = torch.empty_like(x) if x is not None and needs[0] else None
    grad_weight = torch.empty_like(weight) if x is not None and needs[1] else None
    grad_bias = h.new_empty(width // heads) if needs[2] else None
    _function("layer_grad", h.dtype)(
        nodes, graph.colptr.data_ptr(), graph.targets.data_ptr(), graph.slot.data_ptr(), graph.rowptr.data_ptr(),
        features, heads, width // heads, slope, _pointer(x), weight.data_ptr(), h.data_ptr(), att.data_ptr(),
        _pointer(edge), st.data_ptr(), g.data_ptr(), _pointer(derivative), _pointer(scaled), grad_st.data_ptr(),
        grad_score.data_ptr(), grad_h.data_ptr(), _pointer(grad_x), _pointer(grad_weight), grad_att.data_ptr(),
        _pointer(grad_bias), torch.get_num_threads(),
    )  # fmt: skip
    return LayerGradients(grad_h, grad_att, grad_score, grad_x, grad_weight, grad_bias)


def pair_scores(source: Tensor, target: Tensor, att: Tensor, slope: float, graph: Graph) -> Tensor:
    """[E, K]: att_k · LeakyReLU(source_k(j) + target_k(i)) of every edge; source, target [N, K, C], att [K, C]."""
    _, heads, channels = source.shape
    out = source.new_empty(graph.num_edges, heads)
    _function("pair_scores", source.dtype)(
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
    _function("pair_scores_grad", source.dtype)(
        graph.num_src, graph.num_dst, graph.rowptr.data_ptr(), graph.sources.data_ptr(), graph.colptr.data_ptr(),
        graph.targets.data_ptr(), graph.slot.data_ptr(), heads, channels, slope, source.data_ptr(),
        target.data_ptr(), att.data_ptr(), g.data_ptr(), *(grad.data_ptr() for grad in grads),
        torch.get_num_threads(),
    )  # fmt: skip
    return grads


def readout(
    h: Tensor, owner: Tensor, size: int, weight: Tensor, bias: Tensor, last: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out [B] = last · GELU(weight p + bias) + offset with the sums p of h's rows by owner, and p, GELU, its slope."""
    (nodes, channels), hidden = h.shape, weight.size(0)
    out, pooled = h.new_empty(size), h.new_empty(size, channels)
    active, derivative = h.new_empty(size, hidden), h.new_empty(size, hidden)
    done = _function("readout", h.dtype)(
        nodes, size, channels, hidden, h.data_ptr(), owner.data_ptr(), weight.data_ptr(), bias.data_ptr(),
        last.data_ptr(), offset.data_ptr(), pooled.data_ptr(), active.data_ptr(), derivative.data_ptr(), out.data_ptr(),
    )  # fmt: skip
    if done < 0:
        raise IndexError(f"owner: expected graphs 0 to {size - 1}, got {int(owner[-1 - done])}")
    return out, pooled, active, derivative


def readout_grad(
    owner: Tensor, weight: Tensor, last: Tensor, pooled: Tensor, active: Tensor, derivative: Tensor, g: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of `readout` to h, weight, bias, last and offset."""
    (size, channels), hidden = pooled.shape, weight.size(0)
    grads = (
        pooled.new_empty(owner.size(0), channels), torch.empty_like(weight), pooled.new_empty(hidden),
        torch.empty_like(last), pooled.new_empty(1),
    )  # fmt: skip
    _function("readout_grad", pooled.dtype)(
        owner.size(0), size, channels, hidden, owner.data_ptr(), weight.data_ptr(), last.data_ptr(), pooled.data_ptr(),
        active.data_ptr(), derivative.data_ptr(), g.data_ptr(), *(grad.data_ptr() for grad in grads),
    )  # fmt: skip
    return grads
