"""Layers on typed edges with what comes between them, as one function."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from mimogc.models.typed_edges import BondConv, TypedGraph
from mimogc.nn._inputs import check_flow, check_not_traced
from mimogc.nn.coefficients.base import has_hooks
from mimogc.ops import Form, Norm, TypedGate, TypedPairs, TypedSigned, TypedWeights, typed_layers

Modules = Sequence[torch.nn.Module] | torch.nn.ModuleList


def stacked_types(layers: Modules, norms: Modules, x: Tensor, graph: TypedGraph, gain: float | None) -> Tensor | None:
    """Layers one after another, each ``x ← x + gain · GELU(norm(layer(x, graph)))``, or without x where gain is None.

    What Python and autograd cost is paid once (`benchmarks/steps.py --one-by-one` prints what that buys). None where
    they have to be called one by one: layers other than `BondConv`, or of several forms, norms other than batch norm
    or none, or with gradients in evaluation, parameters that do not fit (which the layers name), or someone who looks.
    """
    weights: list[TypedWeights] = []
    stats: list[Norm | None] = []
    form: Form | None = None
    for layer, norm in zip(layers, norms, strict=True):
        own = _weights(layer, norm, x, graph)
        if own is None or (form is not None and _kind(own[0]) != _kind(form)):
            return None
        form = own[0]
        weights.append(own[1])
        stats.append(own[2])
    if form is None:
        return None
    out = typed_layers(form, x, weights, stats, graph.graph, graph.kinds, gain)
    for norm, used in zip(norms, stats, strict=True):
        if used is not None and used.training:
            norm.num_batches_tracked.add_(1)  # type: ignore[operator]
    return out


def _kind(form: Form) -> tuple[type, float]:
    """What layers of one stack have in common."""
    return type(form), form.slope


def _weights(
    layer: torch.nn.Module, norm: torch.nn.Module, x: Tensor, graph: TypedGraph
) -> tuple[Form, TypedWeights, Norm | None] | None:
    """Form, tensors and batch norm of a layer that can be part of one function."""
    if type(layer) is not BondConv or has_hooks(layer) or has_hooks(layer.conv) or has_hooks(norm):
        return None
    conv, own = layer.conv, graph.graph
    check_flow(conv)
    check_not_traced()
    if is_uninitialized_parameter(conv.lin.weight) or (conv.add_self_loops and not own.looped):
        return None
    found = layer.as_typed((x, x), own, graph)
    if found is None:
        return None
    form, of = found
    features, heads, channels, types = x.size(-1), conv.heads, conv.out_channels, layer.types
    att = {TypedGate: (2 * heads, heads * channels), TypedSigned: (2 * heads, features), TypedPairs: (heads, channels)}[
        type(form)
    ]
    shapes: tuple[tuple[Any, tuple[int, ...]], ...] = (
        (of.weight, (heads * channels, features)),
        (of.att, att),
        (of.scores, (types, heads * channels if type(form) is TypedPairs else heads)),
        (of.messages, (types * heads, channels)),
        (of.bias, (channels,)),
        (of.offset, (heads,)),
    )
    learnt: Any = ()
    stats: Norm | None = None
    if type(norm) is torch.nn.BatchNorm1d:
        if norm.momentum is None or not norm.track_running_stats or (torch.is_grad_enabled() and not norm.training):
            return None
        learnt = norm.weight, norm.bias
        kept: Any = norm.running_mean, norm.running_var, norm.momentum, norm.eps, norm.training
        if kept[0] is None or kept[1] is None or norm.num_batches_tracked is None:
            return None
        shapes += tuple((value, (channels,)) for value in (*learnt, *kept[:2]))
        stats = Norm(*kept)
    elif type(norm) is not torch.nn.Identity:
        return None
    if any(value is not None and (value.shape != shape or value.dtype is not x.dtype) for value, shape in shapes):
        return None
    return form, of._replace(norm_weight=learnt[0], norm_bias=learnt[1]) if learnt else of, stats
