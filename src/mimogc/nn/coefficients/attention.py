"""Coefficients from scores of the two ends of an edge: LMGC (the paper's own), GAT, GATv2, FAGCN."""

from typing import cast

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot
from torch_geometric.utils import softmax

from mimogc.graph import Graph
from mimogc.nn.coefficients.base import Channels, Pair, Scored, fixed_heads, source_channels, target_channels
from mimogc.ops import pair_scores, separable_alpha


class LMGC(Scored):
    r"""The paper's instantiation (equation 12):
    ``α_k(i,j) = tanh(v_kᵀ LeakyReLU(W¹x_i ‖ … ‖ W^K x_i ‖ W¹x_j ‖ … ‖ W^K x_j))``.

    LeakyReLU acts element-wise on the concatenation, so the score is a sum of one term of node i and one of
    node j, ``α = tanh(s_k(i) + t_k(j))`` ("static" attention in Brody's sense), and nothing of the size of the
    edges times channels is ever needed.
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__(heads, edge_dim)
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        # The rows are v_k for node i (the first K) and for node j (the last K).
        self.att = Parameter(torch.empty(2 * heads, heads * out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot(self.att)

    def scores(self, h: Pair) -> Pair:
        """s [N, K] of the targets and t [N, K] of the sources."""
        if h[0] is h[1]:
            s, t = (F.leaky_relu(h[0].flatten(1), self.negative_slope) @ self.att.t()).chunk(2, dim=1)
            return s, t
        to_target, to_source = self.att.chunk(2)
        source, target = (F.leaky_relu(side.flatten(1), self.negative_slope) for side in h)
        return target @ to_target.t(), source @ to_source.t()

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        s, t = self.scores(h)
        return separable_alpha(s, t, self.edge_term(graph), graph)


class GAT(Scored):
    r"""``α_k(i,j) = softmax_j LeakyReLU(a_kᵀ W^k x_i + b_kᵀ W^k x_j)`` (Veličković et al.)."""

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__(heads, edge_dim, width=heads * out_channels)
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.att_edge = None if edge_dim is None else Parameter(torch.empty(1, heads, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for parameter in (self.att_src, self.att_dst, self.att_edge):
            if parameter is not None:
                glorot(parameter)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = (h[0] * self.att_src).sum(-1), (h[1] * self.att_dst).sum(-1)  # [N, K]
        score = source[graph.src] + target[graph.dst]
        edge = self.edge_term(graph)
        if edge is not None:
            score = score + (edge.view(-1, *self.att_src.shape[1:]) * cast(Tensor, self.att_edge)).sum(-1)
        return cast(
            Tensor, softmax(F.leaky_relu(score, self.negative_slope), graph.dst, num_nodes=graph.num_dst)
        )


class GATv2(Scored):
    r"""``α_k(i,j) = softmax_j a_kᵀ LeakyReLU(W^k x_j + V^k x_i)`` (Brody et al.).

    The paper writes one shared matrix V = W (``share_weights=True``, the default here); PyG's default has two.
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
        share_weights: bool = True,
    ) -> None:
        super().__init__(heads, edge_dim, width=heads * out_channels)
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        self.share_weights = share_weights
        self.att = Parameter(torch.empty(1, heads, out_channels))
        self.lin_target = (
            None
            if share_weights
            else Linear(
                target_channels(in_channels), heads * out_channels, bias=False, weight_initializer="glorot"
            )
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot(self.att)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = h
        if self.lin_target is not None:
            target = self.lin_target(x[1]).view_as(target)
        edge = self.edge_term(graph)
        if edge is None:
            score = pair_scores(source, target, self.att[0], graph, self.negative_slope)
        else:
            both = source[graph.src] + target[graph.dst] + edge.view(-1, *self.att.shape[1:])  # [E, K, C]
            score = (F.leaky_relu(both, self.negative_slope) * self.att).sum(-1)
        return cast(Tensor, softmax(score, graph.dst, num_nodes=graph.num_dst))


class FAGCN(Scored):
    r"""``α(i,j) = tanh(vᵀ[x_i ‖ x_j]) / √(d_i d_j)`` (Bo et al.), K = 1: signed weights on the input features."""

    def __init__(
        self, in_channels: Channels, out_channels: int = -1, heads: int = 1, edge_dim: int | None = None
    ) -> None:
        super().__init__(fixed_heads("fagcn", heads, 1), edge_dim)
        self.att_src = Linear(source_channels(in_channels), 1, bias=False, weight_initializer="glorot")
        self.att_dst = Linear(target_channels(in_channels), 1, bias=False, weight_initializer="glorot")

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        alpha = separable_alpha(self.att_dst(x[1]), self.att_src(x[0]), self.edge_term(graph), graph)
        return alpha * graph.normalization(alpha.dtype).view(-1, 1)
