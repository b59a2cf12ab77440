"""Layers one after another, as one function where nothing comes between them."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from mimogc.graph import Graph
from mimogc.nn.conv import LMGConv
from mimogc.nn.inputs import check_index, has_hooks
from mimogc.ops import lmgcs
from mimogc.ops.layers import Settings, Weights


def chain(layers: Iterable[torch.nn.Module], x: Tensor, graph: Graph, index: Tensor | None = None) -> Tensor:
    """``x ← layer(x, graph)`` for every layer, beginning with ``x[index]`` where an index is given.

    Layers of lmgc then cost Python and autograd once and not once each, which is what small graphs feel. Others, and
    those that someone looks at through hooks, are called one by one.
    """
    if index is not None:
        check_index(index, x)
    layers = list(layers)
    own = _as_functions(layers)
    if own:
        first: Any = layers[0]
        first._check(x)
        nodes = x if index is None else index
        graph = first.graph((nodes, nodes), graph)
        return lmgcs(x, [weights for weights, _ in own], [settings for _, settings in own], graph, index)
    out = x if index is None else x.index_select(0, index)
    for layer in layers:
        out = layer(out, graph)
    return out


def _as_functions(layers: Sequence[torch.nn.Module]) -> list[tuple[Weights, Settings]]:
    """What the kernel needs of each, if all are one function on one graph and each takes what the one before gives."""
    found: list[tuple[Weights, Settings]] = []
    loops = {layer.add_self_loops for layer in layers if isinstance(layer, LMGConv)}
    for layer in layers:
        own = _as_function(layer) if isinstance(layer, LMGConv) else None
        if own is None or len(loops) > 1 or (found and not _follows(own[0], found[-1][0])):
            return []
        found.append(own)
    return found


def _as_function(layer: LMGConv) -> tuple[Weights, Settings] | None:
    """What lmgc's kernel needs, if a call for nodes of one kind is that kernel and nothing else."""
    if (
        not layer._fusable()
        or layer.combine != "sum"
        or layer.lin_dst is not None
        or layer.lin.bias is not None
        or layer.edge_dim is not None
        or layer._looked_at()
        or type(layer).forward is not LMGConv.forward
        or has_hooks(layer)
    ):
        return None
    layer._check_parameters()
    coefficients: Any = layer.coefficients
    settings = Settings(coefficients.negative_slope, layer.act == "gelu")
    return Weights(layer.lin.weight, coefficients.att, coefficients.offset, None, layer.bias), settings


def _follows(after: Weights, before: Weights) -> bool:
    """Whether a layer takes what another gives; sizes that are not known yet do not."""
    x, y = after.weight, before.weight
    if is_uninitialized_parameter(x) or is_uninitialized_parameter(y):
        return False
    given = y.size(0) // (before.att.size(0) // 2)
    return x.size(1) == given and x.dtype == y.dtype and x.device == y.device
