"""LMGConv: the localized MIMO graph convolution as a PyTorch Geometric layer."""

from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter
from torch_geometric.nn.inits import zeros

from mimogc.graph import Graph
from mimogc.nn import _inputs as inputs
from mimogc.nn import _layout as layout
from mimogc.nn import _parameters as parameters
from mimogc.nn._layout import Operator
from mimogc.nn.coefficients import LMGC, Channels, Coefficients, Eq12, Pair, chosen
from mimogc.nn.coefficients.base import HEADS, has_hooks
from mimogc.ops import lmgc

_MESSAGES = ("propagate", "message", "aggregate", "update", "edge_update", "message_and_aggregate")


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
        coefficients: ``"lmgc"`` (the paper's eq. 12 with an offset), ``"eq12"`` (exactly that), ``"gcn"``, ``"gat"``,
            ``"gatv2"``, ``"fagcn"``, ``"acm"``, ``"gated"``, ``"sheaf"``, ``"free"``, ``"lmgc-sym"`` (lmgc divided by
            degrees, for graphs with hubs), or a `Coefficients` module, which then decides K.
        combine: ``"sum"`` (the paper), ``"mean"`` or ``"concat"`` of the K parts.
        negative_slope: of the LeakyReLU in the scores of lmgc, lmgc-sym, eq12, gat and gatv2.
        add_self_loops: replace self-loops by exactly one per node.
        edge_dim: size of the edge features, which add a term to the score.
        bias: whether to add a learnable bias.
        dropout: probability of dropping a coefficient in training.
        affine: whether every W^(k) x has a learnable bias of its own, as in `GATv2Conv`.
        residual: whether to add a learnable linear map of the targets' features, as in `GATv2Conv`.
        fill_value: edge features of an added self-loop: a number, or ``"mean"`` of those of the edges into its node.

    Shapes:
        - **input:** ``x [N, F]`` or a pair ``([N_s, F_s], [N_t, F_t])``, where None stands for targets whose features
          are zero; ``edge_index [2, E]``, a PyG `EdgeIndex`, a transposed sparse adjacency matrix, or a
          `mimogc.Graph`; ``edge_attr [E, D]``; ``edge_weight [E]`` for coefficients made of the adjacency matrix (gcn,
          acm, fagcn, lmgc-sym, free), which also take it in the place of edge_attr, as `GCNConv` does; ``size``, the
          numbers of sources and targets where the features do not tell
        - **output:** ``[N, C]``, ``[N, K·C]`` with ``combine="concat"``; with ``return_attention_weights=True``
          also ``(edge_index, alpha [E, K])`` in the given edge order with the added loops at the end (for a Graph in
          its own order, for a sparse matrix as a sparse matrix too)
    """

    _own_messages = False  # whether a subclass passes messages in its own way

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._own_messages = any(getattr(cls, name) is not getattr(LMGConv, name) for name in _MESSAGES)

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = HEADS,
        coefficients: str | Coefficients = "lmgc",
        combine: str = "sum",
        negative_slope: float = 0.2,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        affine: bool = False,
        residual: bool = False,
        fill_value: float | str = "mean",
        **others: NoReturn,
    ) -> None:
        parameters.refuse_others(self, others)
        super().__init__(aggr="sum", node_dim=0)
        if combine not in layout.COMBINE:
            raise ValueError(f"combine: expected one of {', '.join(layout.COMBINE)}, got {combine!r}")
        parameters.check_numbers(dropout, negative_slope)
        source, target = (
            in_channels if isinstance(in_channels, tuple) and len(in_channels) == 2 else (in_channels, None)
        )
        for size in (source, source if target is None else target):
            if size != -1:  # to be found out
                parameters.check_size("in_channels", size)
        parameters.check_size("out_channels", out_channels)
        parameters.check_size("heads", heads)
        if edge_dim is not None:
            parameters.check_size("edge_dim", edge_dim)
        parameters.check_fill(fill_value)
        options = {"heads": heads, "negative_slope": negative_slope, "edge_dim": edge_dim, "affine": affine}
        self.coefficients = chosen(coefficients, in_channels, out_channels, combine, options)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.heads = self.coefficients.heads
        self.combine = combine
        self.add_self_loops = add_self_loops
        self.edge_dim = edge_dim
        self.dropout = dropout
        self.fill_value = fill_value
        rows, channels = self.coefficients.map_shape(out_channels)
        linear = {"bias": affine, "weight_initializer": "glorot", "bias_initializer": "zeros"}
        self.lin = Linear(source, rows * channels, **linear)
        self.lin_dst = None if target is None else Linear(target, rows * channels, **linear)
        total = layout.out_channels(self.coefficients.layout, combine, self.heads, out_channels)
        self.bias = Parameter(torch.empty(total)) if bias else None
        width = source if target is None else target
        self.res = Linear(width, total, bias=False, weight_initializer="glorot") if residual else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for lin in self._linear_maps():
            lin.reset_parameters()
        self.coefficients.reset_parameters()
        self._start()
        zeros(self.bias)
        if self.res is not None:
            self.res.reset_parameters()

    def _start(self) -> None:
        """Let the coefficients say how the maps start, once their sizes are known."""
        maps = self._linear_maps()
        if not any(is_uninitialized_parameter(lin.weight) for lin in maps):
            self.coefficients.start(maps, self.combine)

    def forward(
        self,
        x: Tensor | Pair | tuple[Tensor, None],
        edge_index: Any,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
        edge_weight: Tensor | None = None,
        size: tuple[int, int] | None = None,
    ) -> Any:
        sides, graph = self._inputs(x, edge_index, edge_attr, edge_weight, size)
        if not return_attention_weights and self._is_one_kernel(sides, graph):
            if self.res is not None or self.edge_dim is not None:  # what is computed beside the kernel
                parameters.check_parameters(self)
            out = self._in_one_kernel(sides[0], graph)
            return out if self.res is None else out + self.res(sides[1])
        parameters.check_parameters(self)
        try:
            h = self._maps(sides, graph)
            alpha = parameters.checked_alpha(self, self.coefficients(sides, h, graph), h[0])
            alpha = F.dropout(alpha, self.dropout, self.training)
            out = self._propagated(alpha, h[0], graph)
            out = out if self.bias is None else out + self.bias
            out = out if self.res is None else out + self.res(sides[1])
        except (AttributeError, RuntimeError, TypeError, ValueError):
            parameters.check_alike(self)  # says it of the parameter that has caused it
            raise
        return (out, layout.returned(edge_index, graph, alpha)) if return_attention_weights else out

    def _is_one_kernel(self, x: Pair, graph: Graph) -> bool:
        """Whether this call is `ops.lmgc`, which checks its weights: the one place where that is decided."""
        return type(self.coefficients) in (LMGC, Eq12) and self._sums_alone(x, graph)

    def _sums_alone(self, x: Pair, graph: Graph) -> bool:
        """Whether the layer is one map of x and a sum over the graphs, and nobody looks at what lies between."""
        coefficients, lin = self.coefficients, self.lin
        return (
            type(lin) is Linear
            and lin.bias is None
            and self.combine != "concat"
            and (not inputs.fetches_h(self) if graph.is_partitioned else x[0] is x[1])
            and self.lin_dst is None
            and x[0].layout == torch.strided
            and not (self.dropout > 0 and self.training)
            and not (has_hooks(lin) or has_hooks(coefficients) or self._by_messages())
        )

    def _in_one_kernel(self, x: Tensor, graph: Graph) -> Tensor:
        own: Any = self.coefficients
        mean, bias = self.combine == "mean", self.bias
        bias = own.heads * bias if mean and bias is not None else bias  # which the mean divides again
        given = (own.negative_slope, own.edge_term(graph), bias)
        try:
            out = lmgc(x, self.lin.weight, own.att, graph, *given, offset=own.offset)
        except (AttributeError, TypeError, ValueError):
            parameters.check_parameters(self)  # says the same in the layer's own names
            raise
        if out.size(1) != self.out_channels:  # of another number of graphs
            parameters.check_parameters(self)
        return out / own.heads if mean else out

    def _by_messages(self) -> bool:
        """Whether someone looks at the messages, an explainer or a hook, or a subclass has its own."""
        return bool(
            self._own_messages
            or self._explain
            or self._propagate_forward_pre_hooks
            or self._propagate_forward_hooks
            or self._message_forward_pre_hooks
            or self._message_forward_hooks
            or self._aggregate_forward_pre_hooks
            or self._aggregate_forward_hooks
            or any(name in self.__dict__ for name in _MESSAGES)
        )

    def _propagated(self, alpha: Tensor, h: Tensor, graph: Graph) -> Tensor:
        if not self._by_messages():
            return layout.aggregate(self.coefficients.layout, self.combine, alpha, h, graph)
        # PyG's own message passing in the given edge order: slower, but explainers see every message.
        order = layout.given_order(graph)
        size = (graph.num_src, graph.num_dst)
        out: Tensor = self.propagate(graph.edge_index[:, order], h=h, alpha=alpha[order], size=size)
        return out

    def message(self, h_j: Tensor, alpha: Tensor) -> Tensor:
        return layout.message(self.coefficients.layout, self.combine, alpha, h_j)

    def parts(
        self, x: Any, edge_index: Any, edge_attr: Tensor | None = None, **more: Any
    ) -> tuple[Tensor, Tensor, Graph]:
        """The coefficients ``[E, K]`` without dropout, h of the sources, and the graph that they belong to."""
        sides, graph = self._inputs(x, edge_index, edge_attr, **more)
        parameters.check_parameters(self)
        h = self._maps(sides, graph)
        return parameters.checked_alpha(self, self.coefficients(sides, h, graph), h[0]), h[0], graph

    def linear(self, x: Any, edge_index: Any, edge_attr: Tensor | None = None, **more: Any) -> Tensor:
        """The sum over the K graphs alone: the output without bias, dropout and residual connection."""
        return layout.aggregate(self.coefficients.layout, self.combine, *self.parts(x, edge_index, edge_attr, **more))

    def calibrate_scores(self, depth: int, x: Any, edge_index: Any, edge_attr: Any = None, **more: Any) -> None:
        """Bring the coefficients' own parameters to the scale of this input, in a model of `depth` layers."""
        sides, graph = self._inputs(x, edge_index, edge_attr, **more)
        self.coefficients.calibrate(self._maps(sides, graph), graph, depth)

    def rescale(self, factor: float) -> None:
        """Multiply what `linear` gives by `factor`, and leave the coefficients as they are."""
        with torch.no_grad():
            self.coefficients.rescale(factor)
            for lin in self._linear_maps():
                for weight in lin.parameters():
                    weight.mul_(factor)

    def operator(self, x: Tensor | Pair, graph: Any) -> Operator:
        """The layer as a linear map, with its coefficients frozen at x, without any bias and dropout."""
        alpha, _, own = self.parts(x, graph)
        shape = (*self.coefficients.map_shape(self.out_channels), -1)
        weight = layout.weights(self.coefficients.layout, self.combine, self.lin.weight.view(shape))
        return Operator(alpha, weight, own)

    def _inputs(
        self,
        x: Any,
        edge_index: Any,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        size: tuple[int, int] | None = None,
    ) -> tuple[Pair, Graph]:
        """The features of both sides, and the graph that the coefficients are computed on, checked."""
        inputs.check_flow(self)
        inputs.check_not_traced()
        edge_attr, weights = inputs.with_weights(self.coefficients.weighted, self.edge_dim, edge_attr, edge_weight)
        sides = inputs.sides_of(x, self.in_channels, edge_index, size)
        self._check(sides)
        graph = inputs.layer_graph(self, sides, edge_index, edge_attr, weights)
        return inputs.fetched(self, sides, graph), graph

    def _check(self, x: Pair) -> None:
        """Refuse features that do not fit the weights."""
        maps = self._linear_maps()
        if any(is_uninitialized_parameter(lin.weight) for lin in maps):
            for lin, side in zip(maps, x, strict=False):
                lin(side.new_empty(0, side.size(1)))
            self._start()
        parameters.check_features_fit(self, x[0])

    def _linear_maps(self) -> list[Linear]:
        """Those that are linear; someone may have put another module in their place."""
        return [lin for lin in (self.lin, self.lin_dst) if hasattr(lin, "weight")]

    def _maps(self, x: Pair, graph: Graph) -> Pair:
        """h [N, rows, channels] of sources and targets."""
        shape = self.coefficients.map_shape(self.out_channels)
        source = layout.mapped(self.lin, x[0], shape)
        if self.lin_dst is None and graph.is_partitioned:
            return (graph.gathered(source), source) if inputs.fetches_h(self) else (source, source[: graph.num_dst])
        if self.lin_dst is not None:
            return source, layout.mapped(self.lin_dst, x[1], shape)
        return source, source if x[1] is x[0] else layout.mapped(self.lin, x[1], shape)

    __prepare_scriptable__ = inputs.no_jit

    def __repr__(self) -> str:
        sizes, kind = f"{self.in_channels}, {self.out_channels}", type(self.coefficients).__name__
        return f"{type(self).__name__}({sizes}, heads={self.heads}, coefficients={kind})"
