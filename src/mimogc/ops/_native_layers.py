"""The compiled kernels of whole layers as Python functions, as `_native` has the sums."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mimogc._library import on_huge_pages, run
from mimogc.ops import _thresholds
from mimogc.ops._native import for_one_call, pointer, sizes


class Weights(NamedTuple):
    """The tensors of one layer."""

    weight: Tensor  # [K·C, F], the W^(k) stacked
    att: Tensor  # [2K, K·C], the v_k of the targets above those of the sources
    offset: Tensor | None  # [K], added to the scores
    edge: Tensor | None  # [E, K] score terms of the edges
    bias: Tensor | None  # [C]


class Typed(NamedTuple):
    """What a layer with edge types has beside its `Weights`."""

    kinds: Tensor  # [E] int64
    types: int
    received: Tensor  # [num_dst, types·K]: Σ α over the edges of each type into a node, or the gradient to it


def _weights(own: Weights, typed: Typed | None = None, scale: Tensor | None = None) -> Any:
    of_types = (0, 0, 0) if typed is None else (pointer(typed.kinds), typed.types, pointer(typed.received))
    return for_one_call(*map(pointer, own), *of_types, scale is not None, pointer(scale))


def multiplies(weight: Tensor) -> bool:
    """Whether `layer` and `layer_grad` take x and weight, and not h."""
    small = weight.numel() * weight.element_size() <= _thresholds.LARGEST_WEIGHT
    return small and min(weight.shape) >= _thresholds.SMALLEST_SIDE


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x weightᵀ [N, K·C] of contiguous x [N, F]."""
    if not multiplies(weight):
        return torch.mm(x, weight.t())
    h = x.new_empty((x.size(0), weight.size(0)))
    of = sizes(x, 1, weight.size(0), features=weight.size(1))
    run("mimogc_linear", of, x.size(0), pointer(x), pointer(weight), pointer(h))
    return h


def linear_grad(
    x: Tensor, weight: Tensor, g: Tensor, needs_x: bool, needs_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of `linear` to x and weight from contiguous g [N, K·C]."""
    if not multiplies(weight):
        return torch.mm(g, weight) if needs_x else None, torch.mm(g.t(), x) if needs_weight else None
    grad_x, grad_weight = torch.empty_like(x) if needs_x else None, torch.empty_like(weight) if needs_weight else None
    of = sizes(x, 1, weight.size(0), features=weight.size(1))
    run("mimogc_linear_grad", of, x.size(0), *map(pointer, (x, weight, g, grad_x, grad_weight)))
    return grad_x, grad_weight


def layer(
    x: Tensor | None,
    h: Tensor | None,
    own: Weights,
    slope: float,
    links: Any,
    gelu: bool,
    typed: Typed | None = None,
    scale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The paper's layer from x [num_src, F], or from h = x weightᵀ: out [num_dst, C], h, and the scores st.

    h is [num_src, K·C], st [num_src, 2K], the scores of the targets then of the sources. With `gelu`, out is GELU of
    it, and the derivative [num_dst, C] of GELU is the fourth result. `links` is a MimogcGraph;
    `typed.received` is written. With `scale` [num_src] the scores are those of x, which has to be given, `own.att` is
    [2K, F], and α is multiplied by the scale of both ends.
    """
    (width, features), heads = own.weight.shape, own.att.size(0) // 2
    num_src = links.num_src
    h = own.weight.new_empty((num_src, width)) if h is None else h
    st, out = h.new_empty((num_src, 2 * heads)), h.new_empty((links.num_dst, width // heads))
    derivative = torch.empty_like(out) if gelu else None
    of = sizes(h, heads, width // heads, features=features, slope=slope)
    places = pointer(x), pointer(h), pointer(st), pointer(out), pointer(derivative)
    run("mimogc_layer", links, of, _weights(own, typed, scale), *places)
    return out, h, st, derivative


class LayerGradients(NamedTuple):
    """Those of `layer`, None where not asked for; those to x and weight where x is given, else that to h."""

    x: Tensor | None
    h: Tensor | None
    weight: Tensor | None
    att: Tensor
    offset: Tensor | None
    edge: Tensor | None
    bias: Tensor | None


def _room(
    x: Tensor | None,
    h: Tensor | None,
    own: Weights,
    needs: tuple[bool, ...],
    large: Callable[[Tensor], Tensor] = lambda fresh: fresh,
) -> LayerGradients:
    """Where the gradients go that are asked for, that to h where it is given; `large` sees the large ones first."""
    needs_x, needs_weight, _, needs_offset, needs_edge, needs_bias = needs
    width, heads = own.weight.size(0), own.att.size(0) // 2
    new = own.weight.new_empty
    return LayerGradients(
        x=large(torch.empty_like(x)) if x is not None and needs_x else None,
        h=None if h is None else torch.empty_like(h),
        weight=torch.empty_like(own.weight) if x is not None and needs_weight else None,
        att=torch.empty_like(own.att),
        offset=new(heads) if needs_offset else None,
        edge=large(torch.empty_like(own.edge)) if needs_edge and own.edge is not None else None,
        bias=new(width // heads) if needs_bias else None,
    )


def layer_grad(
    x: Tensor | None,
    h: Tensor,
    own: Weights,
    slope: float,
    st: Tensor,
    derivative: Tensor | None,
    g: Tensor,
    links: Any,
    needs: tuple[bool, ...],
    typed: Typed | None = None,
    scale: Tensor | None = None,
) -> LayerGradients:
    """The gradients of `layer` from g [num_dst, C]; `needs` says which to x and to the `Weights` are asked for."""
    (width, features), heads = own.weight.shape, own.att.size(0) // 2
    keeps_h = x is None or links.num_edges > _thresholds.MANY_EDGES * links.num_src
    grads = _room(x, h if keeps_h else None, own, needs if scale is None else (True, *needs[1:]))
    of = sizes(h, heads, width // heads, features=features, slope=slope)
    weights, gradients = _weights(own, typed, scale), for_one_call(*map(pointer, grads))
    places = pointer(x), pointer(h), pointer(st), pointer(derivative), pointer(g)
    run("mimogc_layer_grad", links, of, weights, *places, gradients)
    return grads


def narrow_layer(x: Tensor, own: Weights, slope: float, links: Any, gelu: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """The same as `layer` from x, for graphs whose h is large: out, st and the derivative of GELU, without h."""
    (width, features), heads = own.weight.shape, own.att.size(0) // 2
    st = on_huge_pages(x.new_empty((links.num_src, 2 * heads)))
    out = on_huge_pages(x.new_empty((links.num_dst, width // heads)))
    derivative = on_huge_pages(torch.empty_like(out)) if gelu else None
    of = sizes(x, heads, width // heads, features=features, slope=slope)
    places = pointer(x), pointer(st), pointer(out), pointer(derivative)
    run("mimogc_narrow_layer", links, of, for_one_call(*map(pointer, own)), *places)
    return out, st, derivative


def narrow_layer_grad(
    x: Tensor,
    own: Weights,
    slope: float,
    st: Tensor,
    derivative: Tensor | None,
    g: Tensor,
    links: Any,
    needs: tuple[bool, ...],
) -> LayerGradients:
    """The gradients of `narrow_layer`; that to h is None."""
    (width, features), heads = own.weight.shape, own.att.size(0) // 2
    grads = _room(x, None, own, needs, on_huge_pages)
    of = sizes(x, heads, width // heads, features=features, slope=slope)
    weights, gradients = for_one_call(*map(pointer, own)), for_one_call(*map(pointer, grads))
    places = pointer(x), pointer(st), pointer(derivative), pointer(g)
    run("mimogc_narrow_layer_grad", links, of, weights, *places, gradients)
    return grads
