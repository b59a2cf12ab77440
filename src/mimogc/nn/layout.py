"""How the K graphs meet the channels: the three layouts of `Coefficients`, each in its four forms."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

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
