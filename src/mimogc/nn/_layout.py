"""How the K graphs meet the channels: the three layouts of `Coefficients`, each in its four forms."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import SparseTensor

from mimogc.graph import Graph
from mimogc.ops import propagate

COMBINE = ("sum", "mean", "concat")


@dataclass(frozen=True)
class Operator:
    """A layer as a linear map at one input: ``Σ_k Ã^(k) X W^(k)``. Unpacks as ``alpha, weight``."""

    alpha: Tensor  #: [E, K], edge weights in the order of `graph`
    weight: Tensor  #: [K, F, C]
    graph: Graph  #: the graph the weights live on, with the self-loops the layer added

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.alpha, self.weight))


def mapped(lin: torch.nn.Module, x: Tensor, shape: tuple[int, int]) -> Tensor:
    """h [N, rows, channels] of x; `lin` may be a module of someone's own, such as a linear map with an addition."""
    h: Tensor = lin(x)
    if h.dim() != 2 or h.size(1) != shape[0] * shape[1]:
        raise ValueError(f"lin: expected an output of shape [N, {shape[0] * shape[1]}], got {list(h.shape)}")
    return h.reshape(-1, *shape)


def out_channels(layout: str, combine: str, heads: int, channels: int) -> int:
    """The number of output channels of the layer."""
    return heads * channels if layout == "free" and combine == "concat" else channels


def aggregate(layout: str, combine: str, alpha: Tensor, h: Tensor, graph: Graph) -> Tensor:
    """[N, C]: Σ_k Ã^(k) X W^(k) from alpha [E, K] and h [N, rows, channels]."""
    if layout == "stalk":
        rows = alpha.view(alpha.size(0), h.size(1), h.size(1)).unbind(1)  # row a: [E, s]
        return torch.cat([propagate(row.contiguous(), h, graph) for row in rows], dim=1)
    if layout == "channel" or combine == "concat":
        return propagate(alpha, h, graph, reduce="none").flatten(1)
    out = propagate(alpha, h, graph)
    return out / alpha.size(1) if combine == "mean" else out


def message(layout: str, combine: str, alpha: Tensor, h: Tensor) -> Tensor:
    """[E, C]: what `aggregate` sums over the edges into a node, from h [E, rows, channels] of the sources."""
    if layout == "stalk":
        return (alpha.view(-1, h.size(1), h.size(1)) @ h).flatten(1)
    weighted = alpha.unsqueeze(-1) * h
    if layout == "channel" or combine == "concat":
        return weighted.flatten(1)
    return weighted.mean(1) if combine == "mean" else weighted.sum(1)


def weights(layout: str, combine: str, weight: Tensor) -> Tensor:
    """[K, F, C]: the W^(k), from the linear map's weight [rows, channels, F]."""
    rows, channels, width = weight.shape
    blocks = weight.transpose(1, 2)  # [rows, F, channels]
    if layout == "stalk":  # graph (a, b): row b in, row a out
        full = blocks.new_zeros(rows, rows, width, rows, channels)
        for a in range(rows):
            full[a, :, :, a] = blocks
        return full.view(rows * rows, width, rows * channels)
    if layout == "channel" or combine == "concat":
        full = blocks.new_zeros(rows, width, rows, channels)
        for k in range(rows):
            full[k, :, k] = blocks[k]
        return full.view(rows, width, rows * channels)
    return blocks / rows if combine == "mean" else blocks


_BEHIND = 2**32  # more than any position, also where many given loops were replaced by few


def given_order(graph: Graph) -> Tensor:
    """Where each edge of the given edge_index is in the graph, then the added loops."""
    position = graph.perm
    return torch.argsort(torch.where(position < 0, _BEHIND + graph.dst, position), stable=True)


def returned(edge_index: Any, graph: Graph, alpha: Tensor) -> Any:
    """The coefficients as PyG's layers return them: of a Graph in its own order, else in the given one."""
    if isinstance(edge_index, Graph):
        return graph.edge_index, alpha
    order = given_order(graph)
    (src, dst), alpha = graph.edge_index[:, order], alpha[order]
    sizes = (graph.num_dst, graph.num_src)
    if isinstance(edge_index, SparseTensor):
        return SparseTensor(row=dst, col=src, value=alpha, sparse_sizes=sizes)
    if edge_index.layout != torch.strided:
        return torch.sparse_coo_tensor(torch.stack([dst, src]), alpha, (*sizes, alpha.size(1))), alpha
    return torch.stack([src, dst]), alpha
