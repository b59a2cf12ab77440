"""Coefficients that do not look at the features: GCN, the filter bank of ACM, and free weights."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, UninitializedParameter

from mimogc.graph import Graph
from mimogc.nn.coefficients.base import Channels, Coefficients, Pair, fixed_heads, normalization


class GCN(Coefficients):
    r"""``α(i,j) = 1/√(d_i d_j)`` (Kipf and Welling), K = 1; with the weights of the edges as in `GCNConv`."""

    reads = "h"
    weighted = True

    def __init__(self, in_channels: Channels = -1, out_channels: int = -1, heads: int = 1) -> None:
        super().__init__(fixed_heads("gcn", heads, 1))

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        return normalization(graph, h[0].dtype).view(-1, 1)


class ACM(Coefficients):
    r"""The filter bank of adaptive channel mixing (Luan et al.): ``Ã¹ = A_sym``, ``Ã² = L_sym = I − A_sym``.

    ``identity=True`` adds ``Ã³ = I``. The gate that ACM-GCN puts on top is not linear: see `mimogc.nn.ACMConv`.
    """

    reads = "h"
    loops = "identity"
    weighted = True

    def __init__(
        self, in_channels: Channels = -1, out_channels: int = -1, heads: int | None = None, identity: bool = False
    ) -> None:
        super().__init__(fixed_heads("acm", heads, 3 if identity else 2))

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        identity = graph.identity.to(h[0].dtype)
        low = normalization(graph, h[0].dtype)
        bank = [low, identity - low, identity]
        return torch.stack(bank[: self.heads], dim=1)


class Free(Coefficients):
    """One learnable weight per edge and graph: transductive, for one fixed graph (in its own edge order).

    Weights of the edges multiply them. The number of edges is taken from the first graph seen, unless given.
    """

    weighted = True

    def __init__(
        self, in_channels: Channels = -1, out_channels: int = -1, heads: int = 4, num_edges: int | None = None
    ) -> None:
        super().__init__(heads)
        self.weight: Parameter | UninitializedParameter = (
            UninitializedParameter() if num_edges is None else Parameter(torch.empty(num_edges, heads))
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if not isinstance(self.weight, UninitializedParameter):
            torch.nn.init.normal_(self.weight)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(f"{prefix}weight")
        if isinstance(self.weight, UninitializedParameter) and isinstance(saved, Tensor) and saved.dim() == 2:
            self.weight.materialize(saved.shape, dtype=saved.dtype)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        if graph.is_partitioned:
            raise ValueError("graph: expected a whole one, because free coefficients are parameters of its edges")
        if isinstance(self.weight, UninitializedParameter):
            self.weight.materialize((graph.num_edges, self.heads), device=h[0].device, dtype=h[0].dtype)
            self.reset_parameters()
        if torch.compiler.is_compiling():
            torch._check(self.weight.size(0) == graph.num_edges)
        elif self.weight.size(0) != graph.num_edges:
            raise ValueError(
                f"graph: these free coefficients belong to a graph of {self.weight.size(0)} edges "
                f"(self-loops included), got one of {graph.num_edges}"
            )
        return self.weight if graph.edge_attr is None else self.weight * graph.edge_attr.view(-1, 1)
