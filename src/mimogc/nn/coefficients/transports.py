"""Coefficients with structured feature transformations: one graph per channel (Gated), s × s transports (Sheaf)."""

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from mimogc.graph import Graph
from mimogc.nn.coefficients.base import (
    Channels,
    Coefficients,
    Pair,
    Scored,
    check_shapes,
    fixed_heads,
    source_channels,
    target_channels,
)
from mimogc.ops import at_sources, at_targets


class Gated(Scored):
    r"""``α_c(i,j) = σ(A x_i + B x_j)_c`` (GatedGCN): K = C graphs of one output channel each."""

    layout = "channel"

    def __init__(
        self, in_channels: Channels, out_channels: int, heads: int | None = None, edge_dim: int | None = None
    ) -> None:
        super().__init__(fixed_heads("gated", heads, out_channels), edge_dim, width=out_channels)
        self.out_channels = out_channels
        self.lin_key = Linear(target_channels(in_channels), out_channels, weight_initializer="glorot")
        self.lin_query = Linear(source_channels(in_channels), out_channels, bias=False, weight_initializer="glorot")

    def map_shape(self, out_channels: int) -> tuple[int, int]:
        return out_channels, 1

    def check(self) -> None:
        check_shapes(self, {}, {"lin_key": self.heads, "lin_query": self.heads})

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        score = at_targets(self.lin_key(x[1]), graph) + at_sources(self.lin_query(x[0]), graph)
        edge = self.edge_term(graph)
        return torch.sigmoid(score if edge is None else score + edge)


class Sheaf(Coefficients):
    r"""Transports of neural sheaf diffusion: ``α(i,j) = F_{i⊴e}ᵀ F_{j⊴e}``, K = s² for stalks of dimension s.

    The restriction maps are ``F_{i⊴e} = tanh(Φ[x_i ‖ x_j])`` and ``F_{j⊴e} = tanh(Φ[x_j ‖ x_i])``; features are
    s rows of C/s channels, and graph (a, b) carries row b of a source into row a of its target: W = E_ab ⊗ W.
    """

    layout = "stalk"

    def __init__(self, in_channels: Channels, out_channels: int, heads: int | None = None, stalk_dim: int = 2) -> None:
        if stalk_dim < 1 or out_channels % stalk_dim:
            raise ValueError(f"stalk_dim: expected a divisor of out_channels={out_channels}, got {stalk_dim}")
        if isinstance(in_channels, tuple):
            raise ValueError(f"in_channels: sheaf coefficients need one kind of node, got the pair {in_channels}")
        super().__init__(fixed_heads("sheaf", heads, stalk_dim**2))
        self.out_channels = out_channels
        self.stalk_dim = stalk_dim
        self.lin_own = Linear(in_channels, stalk_dim**2, bias=False, weight_initializer="glorot")
        self.lin_other = Linear(in_channels, stalk_dim**2, bias=False, weight_initializer="glorot")

    def map_shape(self, out_channels: int) -> tuple[int, int]:
        return self.stalk_dim, out_channels // self.stalk_dim

    def restriction(self, own: Tensor, other: Tensor) -> Tensor:
        return torch.tanh(own + other).view(-1, self.stalk_dim, self.stalk_dim)

    def check(self) -> None:
        check_shapes(self, {}, {"lin_own": self.heads, "lin_other": self.heads})

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = x
        own, other = (at_targets(lin(target), graph) for lin in (self.lin_own, self.lin_other))
        theirs, of_other = (at_sources(lin(source), graph) for lin in (self.lin_own, self.lin_other))
        at_target, at_source = self.restriction(own, of_other), self.restriction(theirs, other)  # [E, s, s]
        return (at_target.transpose(1, 2) @ at_source).flatten(1)
