"""Layers on typed edges with what comes between them, as one function."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from mimogc.models.typed_edges import BondConv, TypedGraph
from mimogc.nn._parameters import check_parameters
from mimogc.nn.coefficients.base import has_hooks
from mimogc.ops import Norm, TypedWeights, typed_lmgcs

Modules = Sequence[torch.nn.Module] | torch.nn.ModuleList


def stacked_types(layers: Modules, norms: Modules, x: Tensor, graph: TypedGraph, gain: float | None) -> Tensor | None:
    """Layers one after another, each ``x ← x + gain · GELU(norm(layer(x, graph)))``, or without x where gain is None.

    What Python and autograd cost is paid once (`benchmarks/steps.py --one-by-one` prints what that buys). None where
    they have to be called one by one: layers other than `BondConv` with lmgc or eq12, norms other than batch norm or
    none, or with gradients in evaluation, or someone who looks at parts of them.
    """
    own = [_weights(layer, norm, x, graph) for layer, norm in zip(layers, norms, strict=True)]
    found = [one for one in own if one is not None]
    slopes = {slope for _, _, slope in found}
    if len(found) < len(own) or len(slopes) != 1:
        return None
    weights, stats = [one for one, _, _ in found], [norm for _, norm, _ in found]
    try:
        out = typed_lmgcs(x, weights, stats, graph.plain, graph.kinds, slopes.pop(), gain)
    except (TypeError, ValueError):
        for layer in layers:
            check_parameters(layer.conv)  # type: ignore[arg-type]  # says the same in the layer's own names
        raise
    for norm in norms:
        if isinstance(norm, torch.nn.BatchNorm1d) and norm.training and norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    return out


def _weights(
    layer: torch.nn.Module, norm: torch.nn.Module, x: Tensor, graph: TypedGraph
) -> tuple[TypedWeights, Norm | None, float] | None:
    """Tensors, batch norm and slope of a layer that can be part of one function."""
    if type(layer) is not BondConv or has_hooks(layer) or has_hooks(layer.conv) or has_hooks(norm):
        return None
    conv, edge = layer.conv, layer._types_alone()
    own: Any = conv.coefficients
    if (
        edge is None
        or graph.plain.is_partitioned
        or graph.plain.edge_attr is not None
        or is_uninitialized_parameter(conv.lin.weight)
        or not conv._is_one_kernel((x, x), graph.plain)
        or (conv.add_self_loops and not graph.plain.looped)
        or edge.size(1) != graph.types
    ):
        return None
    tensors = TypedWeights(conv.lin.weight, own.att, edge.t(), layer.message, layer.bias, own.offset)
    if type(norm) is torch.nn.Identity:
        return tensors, None, own.negative_slope
    if type(norm) is not torch.nn.BatchNorm1d or norm.momentum is None or norm.running_mean is None:
        return None
    if torch.is_grad_enabled() and not norm.training:
        return None
    assert norm.running_var is not None
    learnt = tensors._replace(norm_weight=norm.weight, norm_bias=norm.bias)
    return learnt, Norm(norm.running_mean, norm.running_var, norm.momentum, norm.eps, norm.training), own.negative_slope
