"""Which layers, one after another, are one function of the operators, and the tensors of each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter

from mimogc.graph import Graph
from mimogc.nn._inputs import check_flow
from mimogc.nn.coefficients import ACM, FAGCN, GCN, GATv2
from mimogc.nn.coefficients.base import has_hooks
from mimogc.nn.conv import LMGConv
from mimogc.nn.nonlinear import GINLayer
from mimogc.ops import Fixed, Gin, Kind, Pairs, Signed, has_stacks

Modules = Sequence[torch.nn.Module] | torch.nn.ModuleList
Shaped = tuple[Any, tuple[int, ...]]  # a parameter and the shape that it should have


class Stackable(NamedTuple):
    """What `ops.run_stack` takes."""

    layers: list[Kind]
    weights: list[tuple[Any, ...]]
    graph: Graph


def stackable(layers: Modules, x: Tensor, graph: Graph, index: Tensor | None) -> Stackable | None:
    """GIN, GCN, ACM, GATv2 or FAGCN, all layers alike; None for others, and where someone looks at what they do.

    None too where a parameter or x does not fit, which the layer itself says. Node i begins as row ``index[i]`` of x.
    """
    if not (len(layers) and isinstance(graph, Graph) and graph.edge_attr is None and graph.extra is None):
        return None
    if not has_stacks(x, graph) or (index is None and x.size(0) != graph.num_dst):
        return None
    first: Any = layers[0]
    features = x.size(1)
    kinds: list[Kind] = []
    weights: list[tuple[Any, ...]] = []
    for layer in layers:
        found = _gin(layer, features) if type(layer) is GINLayer else _conv(layer, first, features)
        if found is None or type(layer) is not type(first) or not _fits(found[1], x):
            return None
        kinds.append(found[0])
        weights.append(tuple([value for value, _ in found[1]]))
        features = found[2]
    own = graph
    if type(first) is not GINLayer:
        own = graph.with_self_loops() if first.add_self_loops else graph
        own = own.with_identity() if first.coefficients.loops == "identity" else own
        shared = _shared(first.coefficients, x, own)
        weights = weights if shared is None else [(shared, *of) for of in weights]
    fits = all(kind.has_kernels(of) for kind, of in zip(kinds, weights, strict=True))
    return Stackable(kinds, weights, own) if fits else None


def _shared(coefficients: Any, x: Tensor, graph: Graph) -> Tensor | None:
    """What all layers read that is made of the graph alone."""
    if isinstance(coefficients, GATv2):
        return None
    if isinstance(coefficients, FAGCN):
        return graph.degree_scale(x.dtype).unsqueeze(1)
    alpha: Tensor = type(coefficients).forward(coefficients, (x, x), (x, x), graph)  # of the features their type alone
    return alpha


def _fits(parameters: Sequence[Shaped], x: Tensor) -> bool:
    """Whether the parameters have their shapes and the type of x; a bias may be left out."""
    return all(
        (value is None and len(shape) == 1)
        or (isinstance(value, Tensor) and value.shape == shape and value.dtype is x.dtype and value.device == x.device)
        for value, shape in parameters
    )


def _gin(layer: GINLayer, features: int) -> tuple[Kind, list[Shaped], int] | None:
    first, last, channels, eps = layer.hidden, layer.last, layer.out_channels, layer.eps
    maps = type(first) is torch.nn.Linear and type(last) is torch.nn.Linear
    maps = maps and first.bias is not None and last.bias is not None
    if not maps or any(map(has_hooks, (layer, first, last))) or eps.numel() != 1 or eps.dim() > 1 or eps.requires_grad:
        return None
    shapes: list[Shaped] = [(first.weight, (channels, features)), (first.bias, (channels,))]
    shapes += [(last.weight, (channels, channels)), (last.bias, (channels,))]
    return Gin(float(1 + eps)), shapes, channels


def _conv(layer: Any, first: Any, features: int) -> tuple[Kind, list[Shaped], int] | None:
    """A layer that is the first one's like, if nothing is asked of it but to sum over its graphs."""
    if type(layer) is not LMGConv or type(layer.coefficients) not in (GCN, ACM, GATv2, FAGCN):
        return None
    check_flow(layer)
    of, lin = layer.coefficients, layer.lin
    if (
        type(of) is not type(getattr(first, "coefficients", None))
        or of.heads != first.coefficients.heads
        or layer.add_self_loops != first.add_self_loops
        or type(lin) is not Linear
        or is_uninitialized_parameter(lin.weight)
        or lin.bias is not None
        or layer.lin_dst is not None
        or layer.res is not None
        or layer.edge_dim is not None
        or layer.combine != "sum"
        or (layer.dropout > 0 and layer.training)
        or any(map(has_hooks, (layer, lin, of)))
        or layer._by_messages()
    ):
        return None
    heads, channels = of.heads, layer.out_channels
    weight: Shaped = (lin.weight, (heads * channels, features))
    bias: list[Shaped] = [(layer.bias, (channels,))]
    if isinstance(of, GATv2):
        fits = isinstance(of.att, Tensor) and of.att.shape == (1, heads, channels)
        if not fits or of.lin_target is not None or of.lin_edge is not None:
            return None
        return Pairs(of.negative_slope), [(of.att[0], (heads, channels)), weight, *bias], channels
    if isinstance(of, FAGCN):
        maps = (of.att_src, of.att_dst)
        if of.offset is not None or of.lin_edge is not None or any(type(m) is not Linear or has_hooks(m) for m in maps):
            return None
        scores: list[Shaped] = [(score.weight, (1, features)) for score in maps if score.bias is None]
        return (Signed(), [*scores, weight, *bias], channels) if len(scores) == len(maps) else None
    return Fixed(), [weight, *bias], channels
