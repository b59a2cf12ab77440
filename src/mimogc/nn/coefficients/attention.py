"""Coefficients from scores of the two ends of an edge: GAT, GATv2, FAGCN."""

from typing import cast

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot

from mimogc.graph import Graph
from mimogc.nn.coefficients.base import (
    Channels,
    Pair,
    Scored,
    check_shapes,
    fixed_heads,
    source_channels,
    target_channels,
)
from mimogc.nn.coefficients.lmgc import offsets
from mimogc.ops import at_sources, at_targets, edge_softmax, pair_scores, separable_alpha


class GAT(Scored):
    r"""``α_k(i,j) = softmax_j LeakyReLU(a_kᵀ W^k x_i + b_kᵀ W^k x_j)`` (Veličković et al.)."""

    reads = "h"

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__(heads, edge_dim, width=heads * out_channels)
        self.out_channels: int = out_channels
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

    def check(self) -> None:
        shape = (1, self.heads, self.out_channels)  # torch would broadcast others
        names = ("att_src", "att_dst") if self.lin_edge is None else ("att_src", "att_dst", "att_edge")
        check_shapes(self, dict.fromkeys(names, shape))

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = (h[0] * self.att_src).sum(-1), (h[1] * self.att_dst).sum(-1)  # [N, K]
        score = at_sources(source, graph) + at_targets(target, graph)
        features = self.edge_features(graph)
        if features is not None:
            att, weight = cast(Tensor, self.att_edge), self.edge_weight()
            if weight is None:
                edge = (cast(Tensor, self.edge_term(graph)).view(-1, *att.shape[1:]) * att).sum(-1)
            else:
                edge = features @ torch.einsum("kcd,kc->dk", weight, att[0])  # [E, K], without W x of E · K · C
            score = score + edge
        return edge_softmax(F.leaky_relu(score, self.negative_slope), graph)

    def rescale(self, factor: float) -> None:
        self.att_src.div_(factor)
        self.att_dst.div_(factor)


class GATv2(Scored):
    r"""``α_k(i,j) = softmax_j a_kᵀ LeakyReLU(W^k x_j + V^k x_i)`` (Brody et al.).

    The paper writes one shared matrix V = W (``share_weights=True``, the default here); PyG's default has two. With
    ``affine=True`` V x_i has a bias of its own, as PyG's has; that of W is the layer's ``affine``.
    """

    reads = "h"

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
        share_weights: bool = True,
        affine: bool = False,
    ) -> None:
        super().__init__(heads, edge_dim, width=heads * out_channels)
        self.out_channels: int = out_channels
        self.negative_slope = negative_slope
        self.share_weights = share_weights
        self.att = Parameter(torch.empty(1, heads, out_channels))
        self.lin_target = (
            None
            if share_weights
            else Linear(
                target_channels(in_channels),
                heads * out_channels,
                bias=affine,
                weight_initializer="glorot",
                bias_initializer="zeros",
            )
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot(self.att)

    def check(self) -> None:
        check_shapes(self, {"att": (1, self.heads, self.out_channels)}, {"lin_target": self.heads * self.out_channels})

    def rescale(self, factor: float) -> None:
        if self.lin_target is not None or self.lin_edge is not None:
            raise ValueError(
                "only: GATv2 can be scaled with shared weights and without edge features, got one with another map"
            )
        self.att.div_(factor)

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        source, target = h
        if self.lin_target is not None:
            target = self.lin_target(x[1]).view_as(target)
        features = self.edge_features(graph)
        weight = None if features is None else self.edge_weight()
        if features is None or weight is not None:
            score = pair_scores(source, target, self.att[0], graph, self.negative_slope, features, weight)
        else:
            edge = cast(Tensor, self.edge_term(graph)).view(-1, *self.att.shape[1:])
            both = source[graph.src] + target[graph.dst] + edge  # [E, K, C]
            score = (F.leaky_relu(both, self.negative_slope) * self.att).sum(-1)
        return edge_softmax(score, graph)


class FAGCN(Scored):
    r"""``α(i,j) = tanh(vᵀ[x_i ‖ x_j]) / √(d_i d_j)`` (Bo et al.), K = 1: signed weights on the input features.

    Without the share of first features that the published model adds after every layer, small features are squared by
    each layer, and deep stacks start at zero. ``offset=True`` adds a learnt number to the score, as `LMGC` has.
    """

    weighted = True

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int = -1,
        heads: int = 1,
        edge_dim: int | None = None,
        offset: bool = False,
    ) -> None:
        super().__init__(fixed_heads("fagcn", heads, 1), edge_dim)
        self.att_src = Linear(source_channels(in_channels), 1, bias=False, weight_initializer="glorot")
        self.att_dst = Linear(target_channels(in_channels), 1, bias=False, weight_initializer="glorot")
        self.offset = Parameter(offsets(1)) if offset else None

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.offset is not None:
            with torch.no_grad():
                self.offset.copy_(offsets(1))

    def check(self) -> None:
        check_shapes(self, {} if self.offset is None else {"offset": (1,)}, {"att_src": 1, "att_dst": 1})

    def forward(self, x: Pair, h: Pair, graph: Graph) -> Tensor:
        target = self.att_dst(x[1])
        target = target if self.offset is None else target + self.offset
        alpha = separable_alpha(target, self.att_src(x[0]), self.edge_term(graph), graph)
        return self.divided(alpha, graph)
