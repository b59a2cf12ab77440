"""LMGConv: the localized MIMO graph convolution as a PyTorch Geometric layer."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter
from torch_geometric.nn.inits import zeros

from mimogc.graph import Graph
from mimogc.nn import layout
from mimogc.nn.coefficients import LMGC, Channels, Coefficients, Eq12, Pair, chosen
from mimogc.nn.coefficients.base import Scored
from mimogc.nn.inputs import (
    as_graph,
    both_sides,
    check_bias,
    check_edge_attr,
    check_size,
    check_weight,
    unpacked,
)
from mimogc.nn.layout import Operator
from mimogc.ops import activated, check_act, lmgcs, propagate_tanh
from mimogc.ops.layers import Settings, Weights


class LMGConv(MessagePassing):
    r"""The localized MIMO graph convolution of Roth and Liebig, "What Can We Learn From MIMO Graph Convolutions?".

    .. math::
        \mathbf{X}^{\prime} = \sum_{k=1}^{K} \tilde{\mathbf{A}}^{(k)} \mathbf{X} \mathbf{W}^{(k)}

    with K computational graphs whose edge weights ``coefficients`` computes. It takes the place of PyG's
    `GATv2Conv` and others; GCN, GAT, GATv2, FAGCN, ACM's filter bank, GatedGCN and sheaf diffusion are choices of
    ``coefficients``.

    Args:
        in_channels: size of each input, -1 to find out at the first call, or a pair for sources and targets of a
            bipartite graph.
        out_channels: size of each output (of each graph's part with ``combine="concat"``).
        heads: the number K of computational graphs. ``"gcn"``, ``"fagcn"``, ``"acm"``, ``"gated"`` and ``"sheaf"``
            fix K themselves: they ignore the default 4 and refuse every value that is neither 4 nor theirs.
        coefficients: ``"lmgc"`` (the paper's eq. 12 with an offset), ``"eq12"`` (exactly that), ``"gcn"``,
            ``"gat"``, ``"gatv2"``, ``"fagcn"``, ``"acm"``,
            ``"gated"``, ``"sheaf"``, ``"free"``, or a `Coefficients` module, which then decides K.
        combine: ``"sum"`` (the paper), ``"mean"`` or ``"concat"`` of the K parts.
        negative_slope: of the LeakyReLU in the scores of lmgc, gat and gatv2.
        add_self_loops: replace self-loops by exactly one per node.
        edge_dim: size of the edge features, which add a term to the score.
        bias: whether to add a learnable bias.
        dropout: probability of dropping a coefficient in training.
        act: ``"gelu"`` to activate the output, which lmgc's kernel does on its way, or None.
        affine: whether every W^(k) x has a learnable bias of its own, as in `GATv2Conv`.

    Shapes:
        - **input:** ``x [N, F]`` or a pair ``([N_s, F_s], [N_t, F_t])``; ``edge_index [2, E]``, a PyG `EdgeIndex`, a
          transposed sparse adjacency matrix, or a `mimogc.Graph`; ``edge_attr [E, D]``
        - **output:** ``[N, C]``, ``[N, K·C]`` with ``combine="concat"``; with ``return_attention_weights=True``
          also ``(edge_index, alpha [E, K])`` in the given edge order with the added loops at the end (for a Graph in
          its own order)
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 4,
        coefficients: str | Coefficients = "lmgc",
        combine: str = "sum",
        negative_slope: float = 0.2,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        act: str | None = None,
        affine: bool = False,
    ) -> None:
        super().__init__(aggr="sum", node_dim=0)
        check_act(act)
        if combine not in layout.COMBINE:
            raise ValueError(f"combine: expected one of {', '.join(layout.COMBINE)}, got {combine!r}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout: expected a probability in [0, 1), got {dropout}")
        sizes = in_channels if isinstance(in_channels, tuple) else (in_channels,)
        for size in sizes:
            if size != -1:  # to be found out
                check_size("in_channels", size)
        check_size("out_channels", out_channels)
        check_size("heads", heads)
        if edge_dim is not None:
            check_size("edge_dim", edge_dim)
        self.coefficients = chosen(
            coefficients,
            in_channels,
            out_channels,
            {"heads": heads, "negative_slope": negative_slope, "edge_dim": edge_dim, "affine": affine},
        )
        built_for = self.coefficients.out_channels
        if built_for not in (None, out_channels):
            name = type(self.coefficients).__name__
            raise ValueError(
                f"coefficients: expected ones for {out_channels} output channels, got {name} for {built_for}"
            )
        if self.coefficients.layout != "free" and combine != "sum":
            name = type(self.coefficients).__name__
            raise ValueError(
                f"combine: {name} fixes the feature transformations and allows 'sum' only, got {combine!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = self.coefficients.heads
        self.combine = combine
        self.add_self_loops = add_self_loops
        self.edge_dim = edge_dim
        self.dropout = dropout
        self.act = act
        rows, channels = self.coefficients.map_shape(out_channels)
        source, target = in_channels if isinstance(in_channels, tuple) else (in_channels, None)
        options = {"bias": affine, "weight_initializer": "glorot", "bias_initializer": "zeros"}
        self.lin = Linear(source, rows * channels, **options)
        self.lin_dst = None if target is None else Linear(target, rows * channels, **options)
        total = layout.out_channels(self.coefficients.layout, combine, self.heads, out_channels)
        self.bias = Parameter(torch.empty(total)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.lin.reset_parameters()
        if self.lin_dst is not None:
            self.lin_dst.reset_parameters()
        self.coefficients.reset_parameters()
        self._start()
        zeros(self.bias)

    def _start(self) -> None:
        """Let the coefficients say how the maps start, once their sizes are known."""
        maps = self._linear_maps()
        if not any(is_uninitialized_parameter(lin.weight) for lin in maps):
            self.coefficients.start(maps, self.combine)

    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Any,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        sides = self._check(x)
        graph = self.graph(sides, edge_index, edge_attr)
        looked_at = self._looked_at()
        if not (looked_at or return_attention_weights) and self._fusable():
            return self._forward_fused(sides, graph)
        alpha, h = self._alpha(sides, graph)
        if looked_at:
            out = self._by_messages(alpha, h, graph)
        else:
            out = layout.aggregate(self.coefficients.layout, self.combine, alpha, h, graph)
        if self.bias is not None:
            out = out + self.bias
        out = activated(out, self.act)
        if not return_attention_weights:
            return out
        if isinstance(edge_index, Graph):
            return out, (graph.edge_index, alpha)
        order = _given_order(graph)
        return out, (graph.edge_index[:, order], alpha[order])

    def graph(self, x: Pair, edge_index: Any, edge_attr: Tensor | None = None) -> Graph:
        """The graph that the coefficients are computed on, with the self-loops this layer asks for."""
        if isinstance(edge_index, Tensor | Graph) and edge_index.device != x[0].device:
            raise ValueError(f"edge_index: expected device {x[0].device} like x, got {edge_index.device}")
        size = (x[0].size(0), x[1].size(0))
        edges, attributes = unpacked(edge_index, edge_attr, keep_ones=self.edge_dim is not None)
        multiplied = isinstance(self.coefficients, Scored) and self.coefficients.lin_edge is not None
        check_edge_attr(attributes, self.edge_dim, multiplied)
        graph = as_graph(edges, size, attributes, self.add_self_loops)
        return graph.with_identity() if self.coefficients.loops == "identity" else graph

    def linear(self, x: Tensor | Pair, edge_index: Any, edge_attr: Tensor | None = None) -> Tensor:
        """The sum over the K graphs alone: the output without its bias, activation and dropout."""
        sides = self._check(x)
        graph = self.graph(sides, edge_index, edge_attr)
        h = self._maps(sides)
        alpha = self.coefficients(sides, h, graph)
        return layout.aggregate(self.coefficients.layout, self.combine, alpha, h[0], graph)

    def calibrate_scores(
        self, depth: int, x: Tensor | Pair, edge_index: Any, edge_attr: Tensor | None = None
    ) -> None:
        """Bring the coefficients' own parameters to the scale of this input, in a model of `depth` layers."""
        sides = self._check(x)
        self.coefficients.calibrate(self._maps(sides), self.graph(sides, edge_index, edge_attr), depth)

    def rescale(self, factor: float) -> None:
        """Multiply what `linear` gives by `factor`, and leave the coefficients as they are."""
        with torch.no_grad():
            self.coefficients.rescale(factor)
            for lin in self._linear_maps():
                for weight in lin.parameters():
                    weight.mul_(factor)

    def operator(self, x: Tensor | Pair, graph: Any) -> Operator:
        """The layer as a linear map, with its coefficients frozen at x, without any bias, activation and dropout."""
        sides = self._check(x)
        own = self.graph(sides, graph)
        alpha = self.coefficients(sides, self._maps(sides), own)
        shape = (*self.coefficients.map_shape(self.out_channels), -1)
        weight = layout.weights(self.coefficients.layout, self.combine, self.lin.weight.view(shape))
        return Operator(alpha, weight, own)

    def _check(self, x: Tensor | Pair) -> Pair:
        """The features of sources and targets, checked against the layer's weights, and those against each other."""
        source, target = both_sides(x, self.in_channels)
        maps = self._linear_maps()
        if any(is_uninitialized_parameter(lin.weight) for lin in maps):
            for lin, side in zip(maps, (source, target), strict=False):
                lin(side[:0])
            self._start()
        weight = self.lin.weight
        if source.dtype != weight.dtype and not torch.is_autocast_enabled(source.device.type):
            raise TypeError(f"x: expected {weight.dtype} like the layer's weights, got {source.dtype}")
        if source.device != weight.device:
            raise ValueError(
                f"x: expected device {weight.device} like the layer's weights, got {source.device}"
            )
        self._check_parameters()
        return source, target

    def _check_parameters(self) -> None:
        """Refuse a weight or bias that someone has put in the place of ours and that does not fit."""
        coefficients, lin = self.coefficients, self.lin
        rows, channels = coefficients.map_shape(self.out_channels)
        check_weight("lin.weight", lin.weight, rows * channels)
        if self.lin_dst is not None:
            check_weight("lin_dst.weight", self.lin_dst.weight, rows * channels)
        coefficients.check()
        bias = self.bias
        if bias is not None:
            total = layout.out_channels(coefficients.layout, self.combine, self.heads, self.out_channels)
            check_bias(bias, total, lin.weight)

    def _linear_maps(self) -> list[Linear]:
        return [self.lin] if self.lin_dst is None else [self.lin, self.lin_dst]

    def _maps(self, x: Pair) -> Pair:
        """h [N, rows, channels] of sources and targets."""
        shape = (-1, *self.coefficients.map_shape(self.out_channels))
        source = self.lin(x[0]).view(shape)
        if self.lin_dst is not None:
            return source, self.lin_dst(x[1]).view(shape)
        return source, source if x[1] is x[0] else self.lin(x[1]).view(shape)

    def _alpha(self, x: Pair, graph: Graph) -> Pair:
        """The coefficients [E, K], after dropout, and h of the sources."""
        h = self._maps(x)
        alpha = self.coefficients(x, h, graph)
        return F.dropout(alpha, self.dropout, self.training), h[0]

    def _fusable(self) -> bool:
        """Whether no coefficient has to be stored on its own."""
        return (
            type(self.coefficients) in (LMGC, Eq12)
            and self.combine != "concat"
            and not (self.training and self.dropout > 0)
        )

    def _forward_fused(self, x: Pair, graph: Graph) -> Tensor:
        coefficients: Any = self.coefficients
        edge = coefficients.edge_term(graph)
        bias, mean = self.bias, self.combine == "mean"
        if x[0] is x[1] and self.lin_dst is None and self.lin.bias is None:
            settings = Settings(coefficients.negative_slope, self.act == "gelu" and not mean)
            given_bias = None if mean else bias
            own = Weights(self.lin.weight, coefficients.att, coefficients.offset, edge, given_bias)
            out = lmgcs(x[0], [own], [settings], graph, None)
            if not mean:
                return out
        else:
            h = self._maps(x)
            s, t = coefficients.scores(h)
            out = propagate_tanh(s, t, h[0], graph, edge)
        out = out / coefficients.heads if mean else out
        return activated(out if bias is None else out + bias, self.act)

    def _looked_at(self) -> bool:
        """Whether someone looks at the messages: an explainer or a hook."""
        return bool(
            self._explain
            or self._propagate_forward_pre_hooks
            or self._propagate_forward_hooks
            or self._message_forward_pre_hooks
            or self._message_forward_hooks
        )

    def _by_messages(self, alpha: Tensor, h: Tensor, graph: Graph) -> Tensor:
        """PyG's own message passing in the given edge order: slower, but explainers see every message."""
        order = _given_order(graph)
        size = (graph.num_src, graph.num_dst)
        out: Tensor = self.propagate(graph.edge_index[:, order], h=h, alpha=alpha[order], size=size)
        return out

    def message(self, h_j: Tensor, alpha: Tensor) -> Tensor:
        return layout.message(self.coefficients.layout, self.combine, alpha, h_j)

    def __repr__(self) -> str:
        channels = f"{self.in_channels}, {self.out_channels}"
        kind = type(self.coefficients).__name__
        return f"{type(self).__name__}({channels}, heads={self.heads}, coefficients={kind})"


def _given_order(graph: Graph) -> Tensor:
    """Where each edge of the given edge_index is in the graph, then the added loops."""
    position = graph.perm
    return torch.argsort(torch.where(position < 0, position.numel() + graph.dst, position), stable=True)
