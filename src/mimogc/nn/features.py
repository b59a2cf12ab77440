"""First layers for node features: those that are mostly zero, kept sparse, and Laplacian eigenpairs."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F

from mimogc.graph import Graph
from mimogc.ops import propagate

LAPLACIAN = 8  # channels of the encoded eigenpairs


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


class LaplacianEncoder(torch.nn.Module):
    """A DeepSet over the eigenpairs of a molecule: (vector entry, eigenvalue) → 16 → 8, ReLU, summed over pairs.

    In training every eigenvector of every molecule gets a random sign, because its sign means nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(2, 2 * LAPLACIAN)
        self.last = torch.nn.Linear(2 * LAPLACIAN, LAPLACIAN)

    def forward(self, pairs: Tensor, owner: Tensor, num_graphs: int) -> Tensor:
        """[N, 8] from pairs [N, 8, 2]; a pair with eigenvalue zero is padding and adds nothing."""
        vector, value = pairs.unbind(-1)
        if self.training:
            sign = torch.randint(0, 2, (num_graphs, vector.size(1)), device=pairs.device) * 2 - 1
            pairs = torch.stack([vector * sign[owner], value], dim=-1)
        rows = F.relu(self.last(F.relu(self.hidden(pairs))))
        return (rows * (value != 0).unsqueeze(-1)).sum(1)
