"""Layers on typed edges with what comes between them, as one function."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from mimogc.models.typed_edges import BondConv, TypedGraph
from mimogc.nn._inputs import check_flow, check_not_traced
from mimogc.nn.coefficients.base import has_hooks
from mimogc.ops import Norm, TypedWeights, typed_lmgcs

Modules = Sequence[torch.nn.Module] | torch.nn.ModuleList


def stacked_types(layers: Modules, norms: Modules, x: Tensor, graph: TypedGraph, gain: float | None) -> Tensor | None:
    """Layers one after another, each ``x ← x + gain · GELU(norm(layer(x, graph)))``, or without x where gain is None.

    What Python and autograd cost is paid once (`benchmarks/steps.py --one-by-one` prints what that buys). None where
    they have to be called one by one: layers other than `BondConv` with lmgc or eq12, norms other than batch norm or
    none, or with gradients in evaluation, parameters that do not fit (which the layers name), or someone who looks.
    """
    weights: list[TypedWeights] = []
    stats: list[Norm | None] = []
    slope = None
    for layer, norm in zip(layers, norms, strict=True):
        own = _weights(layer, norm, x, graph)
        if own is None or slope not in (None, own[2]):
            return None
        weights.append(own[0])
        stats.append(own[1])
        slope = own[2]
    if slope is None:
        return None
    out = typed_lmgcs(x, weights, stats, graph.graph, graph.kinds, slope, gain)
    for norm, used in zip(norms, stats, strict=True):
        if used is not None and used.training:
            norm.num_batches_tracked.add_(1)  # type: ignore[operator]
    return out


def _weights(
    layer: torch.nn.Module, norm: torch.nn.Module, x: Tensor, graph: TypedGraph
) -> tuple[TypedWeights, Norm | None, float] | None:
    """Tensors, batch norm and slope of a layer that can be part of one function."""
    if type(layer) is not BondConv or has_hooks(layer) or has_hooks(layer.conv) or has_hooks(norm):
        return None
    conv, edge, own = layer.conv, layer._types_alone(), graph.graph
    check_flow(conv)
    check_not_traced()
    if (
        edge is None
        or own.is_partitioned
        or is_uninitialized_parameter(conv.lin.weight)
        or not conv._is_one_kernel((x, x), own)
        or (conv.add_self_loops and not own.looped)
    ):
        return None
    of: Any = conv.coefficients
    heads, channels = conv.heads, conv.out_channels
    shapes: tuple[tuple[Any, tuple[int, ...]], ...] = (
        (conv.lin.weight, (heads * channels, x.size(-1))),
        (of.att, (2 * heads, heads * channels)),
        (edge, (heads, layer.types)),
        (layer.message, (layer.types * heads, channels)),
        (layer.bias, (channels,)),
        (of.offset, (heads,)),
    )
    learnt: Any = ()
    stats: Norm | None = None
    if type(norm) is torch.nn.BatchNorm1d:
        if norm.momentum is None or not norm.track_running_stats or (torch.is_grad_enabled() and not norm.training):
            return None
        learnt = norm.weight, norm.bias
        found: Any = norm.running_mean, norm.running_var, norm.momentum, norm.eps, norm.training
        if found[0] is None or found[1] is None or norm.num_batches_tracked is None:
            return None
        shapes += tuple((value, (channels,)) for value in (*learnt, *found[:2]))
        stats = Norm(*found)
    elif type(norm) is not torch.nn.Identity:
        return None
    needed = (conv.lin.weight, of.att)  # the others may be left out
    if any(value is None for value in needed) or any(
        value is not None and (value.shape != shape or value.dtype is not x.dtype) for value, shape in shapes
    ):
        return None
    tensors = (conv.lin.weight, of.att, edge.t(), layer.message, layer.bias, of.offset)
    return TypedWeights(*tensors, *learnt), stats, of.negative_slope
