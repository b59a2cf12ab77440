"""Node features that are mostly zero, kept sparse, and the first layer that takes them or dense ones."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from mimogc.graph import Graph
from mimogc.ops import propagate


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """A feature matrix `[N, F]` as the graph feature → node of its non-zero entries.

    ``X W`` is then one propagation over that graph. Both of its orders are sorted once, so the gradient of W costs
    as little as the product itself.
    """

    graph: Graph  #: F sources, N targets
    value: Tensor  #: [nnz, 1]

    @staticmethod
    def from_dense(x: Tensor) -> "SparseFeatures":
        node, feature = x.nonzero(as_tuple=True)
        graph = Graph.from_edge_index(torch.stack([feature, node]), (x.size(1), x.size(0)))
        return SparseFeatures(graph, x[graph.dst, graph.src].unsqueeze(1).contiguous())

    def size(self, dim: int) -> int:
        """N for 0, F for 1."""
        return (self.graph.num_dst, self.graph.num_src)[dim]

    def __matmul__(self, weight: Tensor) -> Tensor:
        """[N, C] from weight [F, C]."""
        return propagate(self.value, weight.unsqueeze(1), self.graph)

    def to(self, device: torch.device | str) -> "SparseFeatures":
        return SparseFeatures(self.graph.to(device), self.value.to(device))


class Encoder(torch.nn.Module):
    """A linear layer for dense or sparse features, initialised like `torch.nn.Linear`.

    Its weight is `[F, C]`, the transpose of torch's, because that is how sparse features read it.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = Parameter(torch.empty(in_channels, out_channels))
        self.bias = Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.size(0))
        torch.nn.init.uniform_(self.weight, -bound, bound)
        torch.nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor | SparseFeatures) -> Tensor:
        if x.size(1) != self.weight.size(0):
            raise ValueError(f"x: expected {self.weight.size(0)} features, got {x.size(1)}")
        return x @ self.weight + self.bias

    def extra_repr(self) -> str:
        return ", ".join(str(size) for size in self.weight.shape)
