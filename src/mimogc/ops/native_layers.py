"""The compiled kernels of whole layers and of a regressor's end as Python functions, as `native` has the sums."""

from typing import NamedTuple

import torch
from torch import Tensor

from mimogc.ops.links import Links
from mimogc.ops.native import function, pointer

# The products of a layer are computed by its kernel where W has at least so many rows and columns, and at most so many
# bytes; elsewhere by torch.
_SMALLEST_SIDE, _LARGEST_WEIGHT = 32, 2**18


# Where x is given, the gradient to h need not be kept: its rows are made where they are used, for which rows of g are
# gathered once more. With more edges per row than this the second time costs more than it saves.
_MANY_EDGES = 12


def multiplies(weight: Tensor) -> bool:
    """Whether `layer` and `layer_grad` take x and weight, and not h."""
    small = weight.numel() * weight.element_size() <= _LARGEST_WEIGHT
    return small and min(weight.shape) >= _SMALLEST_SIDE


# weight [K·C, F], att [2K, K·C], offset [K], edge [E, K], bias [C]; the last three may be missing
LayerWeights = tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]


def layer(
    x: Tensor | None, h: Tensor | None, weights: LayerWeights, slope: float, links: Links, gelu: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The paper's layer from x [num_src, F], or from h = x weightᵀ: out [num_dst, C], h, and the scores st.

    h is [num_src, K·C], st [num_src, 2K], the scores of the targets then of the sources. With `gelu`, out is GELU of
    it, and the derivative [num_dst, C] of GELU is the fourth result.
    """
    weight, att, offset, edge, bias = weights
    (width, features), heads = weight.shape, att.size(0) // 2
    h = weight.new_empty(links.num_src, width) if h is None else h
    st, out = h.new_empty(links.num_src, 2 * heads), h.new_empty(links.num_dst, width // heads)
    derivative = torch.empty_like(out) if gelu else None
    function("layer", h.dtype)(
        links.num_src, links.num_dst, links.rowptr, links.sources, links.parent, features, heads, width // heads, slope,
        pointer(x), weight.data_ptr(), att.data_ptr(), pointer(offset), pointer(edge), pointer(bias), h.data_ptr(),
        st.data_ptr(), out.data_ptr(), pointer(derivative), torch.get_num_threads(),
    )  # fmt: skip
    return out, h, st, derivative


class LayerGradients(NamedTuple):
    """Those of `layer`, None where not asked for; those to x and weight where x is given, else that to h."""

    att: Tensor
    offset: Tensor | None
    edge: Tensor | None
    h: Tensor | None
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
    links: Links,
    needs: tuple[bool, bool, bool, bool, bool],
) -> LayerGradients:
    """The gradients of `layer` from g [num_dst, C]; `needs` those to x, weight, offset, edge and bias."""
    weight, att, _, edge, _ = weights
    needs_x, needs_weight, needs_offset, needs_edge, needs_bias = needs
    (width, features), heads = weight.shape, att.size(0) // 2
    grad_att = torch.empty_like(att)
    grad_edge = h.new_empty(links.num_edges, heads) if needs_edge else None
    keeps_h = x is None or links.num_edges > _MANY_EDGES * links.num_src
    grad_h = torch.empty_like(h) if keeps_h else None
    grad_x = torch.empty_like(x) if x is not None and needs_x else None
    grad_weight = torch.empty_like(weight) if x is not None and needs_weight else None
    grad_offset = h.new_empty(heads) if needs_offset else None
    grad_bias = h.new_empty(width // heads) if needs_bias else None
    function("layer_grad", h.dtype)(
        links.num_src, links.num_dst, links.colptr, links.targets, links.slot, links.rowptr, links.parent, features,
        heads, width // heads, slope, pointer(x), weight.data_ptr(), h.data_ptr(), att.data_ptr(), pointer(edge),
        st.data_ptr(), g.data_ptr(), pointer(derivative), pointer(grad_edge), pointer(grad_h), pointer(grad_x),
        pointer(grad_weight), grad_att.data_ptr(), pointer(grad_offset), pointer(grad_bias), torch.get_num_threads(),
    )  # fmt: skip
    return LayerGradients(
        grad_att, grad_offset, grad_edge, grad_h if x is None else None, grad_x, grad_weight, grad_bias
    )


def readout(
    h: Tensor, owner: Tensor, size: int, weight: Tensor, bias: Tensor, last: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out [B] = last · GELU(weight p + bias) + offset with the sums p of h's rows by owner, and p, GELU, its slope."""
    (nodes, channels), hidden = h.shape, weight.size(0)
    out, pooled = h.new_empty(size), h.new_empty(size, channels)
    active, derivative = h.new_empty(size, hidden), h.new_empty(size, hidden)
    done = function("readout", h.dtype)(
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
    function("readout_grad", pooled.dtype)(
        owner.size(0), size, channels, hidden, owner.data_ptr(), weight.data_ptr(), last.data_ptr(), pooled.data_ptr(),
        active.data_ptr(), derivative.data_ptr(), g.data_ptr(), *(grad.data_ptr() for grad in grads),
    )  # fmt: skip
    return grads
